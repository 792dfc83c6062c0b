"""``lbgen audit``."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import click

from lbgen.audit import audit
from lbgen.audit.rule import Running
from lbgen.audit.secrets import blotted, without_secrets
from lbgen.cli.console import summary, wrap_width
from lbgen.cli.options import Command, option
from lbgen.cli.problem_formats import FORMATS
from lbgen.cli.problem_text import lines_report
from lbgen.fleet.text.source import Source
from lbgen.problems import LbgenError, Severity
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.audit import Report
    from lbgen.cli.console import Console
    from lbgen.readers.files import Configurations

_TARGETS = ("nginx", "haproxy")
_ORDER = (Severity.INFO, Severity.WARNING, Severity.ERROR)


@click.command(cls=Command)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(allow_dash=True))
@option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif", "github"]),
    help="Format of the findings. Default: text; github in a GitHub action.",
)
@option(
    "--fail-on",
    type=click.Choice([one.value for one in reversed(_ORDER)]),
    default="warning",
    show_default=True,
    help="Exit 1 for findings of at least this severity.",
)
@option(
    "--target-version",
    "versions",
    multiple=True,
    metavar="TARGET=VERSION",
    help="The version that runs the files, or its package, nginx=1.22.1-9+deb12u3: what is right by default"
    " there is not found, known vulnerabilities are.",
)
@option(
    "--all", "every", is_flag=True, help="Look at every pool, even if nothing shows that it serves models."
)
@click.pass_obj
def command(  # noqa: PLR0913, PLR0917 - one parameter an option
    console: Console,
    /,
    paths: tuple[str, ...],
    form: str | None,
    fail_on: str,
    versions: tuple[str, ...],
    every: bool,
) -> int:
    """Find settings in an existing nginx.conf or haproxy.cfg that harm LLM requests.

    PATH is a file or a folder, a complete configuration or a part of one, or a Compose file that mounts one;
    includes are followed, and several HAProxy files are read in order, as by 'haproxy -f A -f B'. Each
    finding says what happens to requests, what to write instead, and what lbgen renders. Files that pass
    nothing to a model have no findings.
    """
    from lbgen.imports.named import read_named  # noqa: PLC0415 - it takes crossplane

    running = _running(paths, versions)
    found, compose, _ = read_named(paths, str(running["haproxy"].version or ""))
    for name, version in compose.versions.items() if compose else ():
        if running[name].version is None and version.count(".") == 2:  # '2.8' is the newest 2.8 of its day
            running[name] = Running(Version.parse(version))
    report = audit(found, running, every=every)
    if not found.nginx and found.haproxy is None:
        raise LbgenError(f"{', '.join(found.others)}: neither an NGINX nor a HAProxy configuration")
    _report(console, found, report, form)
    least = _ORDER.index(Severity(fail_on))
    return int(any(_ORDER.index(problem.severity) >= least for problem in report.problems))


def _report(console: Console, found: Configurations, report: Report, form: str | None) -> None:
    kind = form or ("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text")
    texts = {name: text for one in found.nginx for name, text in one.texts.items()}
    texts |= found.haproxy.texts if found.haproxy else {}
    sources = [Source(name, text) for name, text in texts.items()]
    if kind != "text":
        console.result(FORMATS[kind](report.problems, sources))
    elif report.problems:
        lines = {name: [without_secrets(line) for line in text.split("\n")] for name, text in texts.items()}
        for key in (one.location for one in report.problems if one.code == "keys-in-file" and one.location):
            blotted(lines[key.file], key)
        console.result(
            lines_report(
                report.problems,
                lines,
                color=console.wants_color(sys.stdout),
                width=wrap_width(sys.stdout),
            )
        )
    for note in report.notes:
        console.note(note)
    if kind == "text":
        console.note(summary(report.problems) or "nothing found")


def _running(paths: Sequence[str], texts: Sequence[str]) -> dict[str, Running]:
    """Return the versions that were named, else those of the programs whose folders are looked at."""
    running = {name: Running() for name in _TARGETS}
    for text in texts:
        name, _, said = text.partition("=")
        version = re.match(r"\d+\.\d+(?:\.\d+)?(?=$|[-+~])", said)
        if name not in running or version is None:
            raise click.UsageError(f"--target-version {text}: write it as nginx=1.26.3 or haproxy=3.0.11")
        running[name] = Running(Version.parse(version[0]), said if version[0] != said else "")
    for name in _TARGETS:
        if running[name].version is None and any(_installed(path, name) for path in paths):
            running[name] = _here(name)
    return running


def _installed(path: str, name: str) -> bool:
    return os.path.realpath(path).startswith((f"/etc/{name}/", f"/usr/local/etc/{name}/"))


def _here(name: str) -> Running:
    from lbgen.checker.programs import version_of  # noqa: PLC0415 - most audits are of files from elsewhere
    from lbgen.runtimes.process import find_local  # noqa: PLC0415
    from lbgen.targets.registry import TARGETS  # noqa: PLC0415

    asked = TARGETS[name].program
    found = find_local(asked.name)
    if found is None:
        return Running()
    try:
        package = found.package() or asked.package(lambda arguments: found.run(arguments).output)
        return Running(version_of(found, asked), package)
    except LbgenError:
        return Running()
