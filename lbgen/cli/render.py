"""``lbgen render``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lbgen.cli.inputs import load_fleet, templates_folder, usable_fleet
from lbgen.cli.options import Command, fleet_options, option, templates_option
from lbgen.render import render
from lbgen.secret_values import RealSecrets, StandInSecrets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.cli.console import Console
    from lbgen.cli.options import FleetRequest
    from lbgen.files import Change
    from lbgen.model import Fleet
    from lbgen.render import RenderedFile
    from lbgen.targets.spec import Secrets


class Wanted(NamedTuple):
    """What the options of one call ask for."""

    output: str | None
    part: str
    check: bool
    diff: bool
    templates: str | None
    force: bool

    @property
    def looks_only(self) -> bool:
        """True when nothing is written, so that stand-ins may take the place of secrets."""
        return self.check or self.diff


@click.command(cls=Command)
@fleet_options
@option("-o", "--output", metavar="DIR", type=click.Path(), help="Write DIR/TARGET/... instead of printing.")
@option(
    "--part",
    type=click.Choice(["all", "http", "upstreams"]),
    default="all",
    show_default=True,
    help="A whole configuration, or what an existing one can include: the http level, or the pools alone.",
)
@option("--check", is_flag=True, help="Write nothing; exit 1 when the files in DIR differ.")
@option("--diff", is_flag=True, help="Write nothing; print what would change in DIR, secrets masked.")
@templates_option
@option("--force", is_flag=True, help="Replace files that lbgen did not write.")
@click.pass_obj
def command(
    console: Console,
    /,
    request: FleetRequest,
    **options: Any,  # noqa: ANN401 - what click parsed
) -> int:
    """Render configuration files from a fleet.

    FLEET is a path, or - for standard input; further ones are overlays, merged from left to right.
    Without -o, the one file of one target goes to standard output.
    """
    wanted = Wanted(**options)
    _refuse_contradictions(wanted)
    loaded = load_fleet(console, request)
    understood = usable_fleet(console, loaded, request)
    if wanted.output is None:
        return _print(console, understood, wanted)
    work = _look if wanted.looks_only else _write
    return work(console, understood, wanted, Path(wanted.output))


def _refuse_contradictions(wanted: Wanted) -> None:
    if wanted.output is not None and not wanted.output.strip():
        raise click.UsageError("-o names no directory: is a variable of the shell empty?")
    if wanted.looks_only and wanted.output is None:
        raise click.UsageError("--check and --diff compare with files on disk: say which with -o DIR")


def _print(console: Console, fleet: Fleet, wanted: Wanted) -> int:
    names = [settings.name for settings in fleet.targets]
    if len(names) > 1:
        raise click.UsageError(f"{len(names)} targets ({', '.join(names)}): use -o DIR, or name one with -t")
    for name in names:
        main, *beside = _render(fleet, name, wanted, StandInSecrets())
        others = ", ".join(file.path for file in beside if not file.aside)
        if others:
            raise click.UsageError(f"{name} needs {others} beside its {main.path}: use -o DIR")
        console.result(main.text)
    return 0


def _write(console: Console, fleet: Fleet, wanted: Wanted, directory: Path) -> int:
    from lbgen.files import compare, refuse_foreign, write_files  # noqa: PLC0415 - printing needs none of it

    rendered = {
        directory / settings.name: _render(fleet, settings.name, wanted, RealSecrets())
        for settings in fleet.targets
    }
    if not wanted.force:  # for all targets before the first file is written
        for folder, files in rendered.items():
            refuse_foreign(compare(folder, files))
    for folder, files in rendered.items():
        for change in write_files(folder, files, force=wanted.force):
            _say(console, change, _DONE)
    return 0


def _look(console: Console, fleet: Fleet, wanted: Wanted, directory: Path) -> int:
    from lbgen.files import compare, diff  # noqa: PLC0415 - printing needs none of it

    secrets = StandInSecrets()
    changes = [
        change
        for settings in fleet.targets
        for change in compare(directory / settings.name, _render(fleet, settings.name, wanted, secrets))
    ]
    if secrets.missing:
        names = ", ".join(str(secret) for secret in secrets.missing)
        console.note(f"not to be had here: {names}; files that hold secrets are not compared")
        changes = [change for change in changes if not change.secret or change.kind == "new"]
    differing = [change for change in changes if change.kind != "same"]
    if wanted.diff and differing:
        console.result(diff(differing))
    for change in changes:
        _say(console, change, _FOUND)
    if not differing:
        console.note(f"nothing differs in {directory}")
    return 1 if wanted.check and differing else 0


def _render(fleet: Fleet, target: str, wanted: Wanted, secrets: Secrets) -> tuple[RenderedFile, ...]:
    return render(fleet, target, wanted.part, templates_folder(wanted.templates), secrets)


def _say(console: Console, change: Change, words: Mapping[str, str]) -> None:
    say = console.detail if change.kind == "same" else console.note
    say(f"{words[change.kind]} {change.path}")


_DONE = {
    "new": "written  ",
    "changed": "changed  ",
    "stale": "removed  ",
    "same": "unchanged",
    "foreign": "replaced ",
}
_FOUND = {
    "new": "missing  ",
    "changed": "differs  ",
    "stale": "stale    ",
    "same": "unchanged",
    "foreign": "not ours ",
}
