"""``lbgen import``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lbgen.cli.describe.new_file import write_new
from lbgen.cli.options import Command, option, or_standard_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.cli.console import Console
    from lbgen.imports.ledger import Entry
    from lbgen.imports.whole import Imported


@click.command("import", cls=Command)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    callback=or_standard_output,
    help="File to create; an existing file is never overwritten.",
)
@option("--strict", is_flag=True, help="Exit 1 if something was not carried over.")
@click.pass_obj
def command(console: Console, paths: tuple[str, ...], output: str | None, strict: bool) -> int:
    """Convert an existing nginx.conf or haproxy.cfg into a fleet file.

    PATH is a configuration file (includes are followed), a part of one, a folder, a Compose file that mounts
    one, LiteLLM's config.yaml with a model_list, or - for standard input. The fleet file goes to standard
    output or to a new file. Directives that were not carried over are listed with their lines on standard
    error. Keys and passwords become references; their values are not copied.
    """
    from lbgen.imports.whole import import_configurations  # noqa: PLC0415 - it takes crossplane

    imported = import_configurations(paths)
    deliver(console, imported, output, comments=False)
    return exit_code(imported, strict=strict)


def deliver(console: Console, imported: Imported, output: str | None, *, comments: bool) -> None:
    """Write the fleet file, then what it lacks."""
    text = imported.text(comments=comments)
    if output is None:
        console.result(text)
    else:
        write_new(output, text)
    report(console, imported)
    if output is not None:
        console.note(f"written: {output}; next: lbgen check {output}")


def exit_code(imported: Imported, *, strict: bool) -> int:
    """Return 1 for a fleet with errors, and under `strict` where something was left; else 0."""
    from lbgen.imports.ledger import Fate  # noqa: PLC0415 - it takes crossplane

    left = any(entry.fate is Fate.LEFT for entry in imported.entries)
    wrong = any(problem.is_error for problem in imported.problems)
    return 1 if wrong or (strict and left) else 0


def report(console: Console, imported: Imported) -> None:
    """Say what was not carried over, what differs, which secrets to bring, and the sums."""
    from lbgen.imports.ledger import Fate, summary  # noqa: PLC0415 - it takes crossplane

    console.problems(imported.problems)
    by_fate = {fate: [one for one in imported.entries if one.fate is fate] for fate in Fate}
    _list(console, "not carried over:", by_fate[Fate.LEFT])
    _list(console, "better by default:", by_fate[Fate.BETTER])
    _list(console, "carried over, with a difference:", [one for one in by_fate[Fate.CARRIED] if one.reasons])
    if imported.secrets:
        console.note("secrets, which the fleet file only refers to:")
        for reference, what, place in imported.secrets:
            console.note(f"  {reference}: {what}, from {place.file}:{place.line}")
    console.note(summary(imported.entries))


def _list(console: Console, title: str, entries: Sequence[Entry]) -> None:
    if entries:
        console.note(title)
        for entry in entries:
            console.note(f"  {entry.line()}")
