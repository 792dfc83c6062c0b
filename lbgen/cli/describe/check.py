"""``lbgen check``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lbgen.checker import check_target, parse_choice
from lbgen.checker.names import several_addresses
from lbgen.cli.console import summary
from lbgen.cli.inputs import for_balancer, load_fleet, templates_folder
from lbgen.cli.options import Command, fleet_options, option, templates_option
from lbgen.cli.problem_formats import FORMATS
from lbgen.fleet.text.ignores import without_ignored
from lbgen.fleet.text.source import Source
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.checker import Choice, Verdict
    from lbgen.cli.console import Console
    from lbgen.cli.options import FleetRequest
    from lbgen.fleet.load import Loaded
    from lbgen.model import Fleet
    from lbgen.problems import Problem


class Wanted(NamedTuple):
    """What the options of one call ask for."""

    format: str | None
    strict: bool
    binary: tuple[str, ...]
    resolve: bool
    each: bool
    templates: str | None


@click.command(cls=Command)
@fleet_options
@option(
    "--format",
    type=click.Choice(["text", "json", "github", "sarif"]),
    help="Format of the problems. Default: text; github in a GitHub action.",
)
@option("--strict", is_flag=True, help="Exit 1 for warnings as well.")
@option(
    "--binary",
    multiple=True,
    metavar="auto|none|required|TARGET=PATH",
    help="Real programs to check with: auto: those that are found; none; required: exit 2 if one is"
    " missing; or a program or an image, such as nginx=docker://nginx:1.26.",
)
@option("--resolve", is_flag=True, help="Let the programs resolve the servers' real host names.")
@option("--each", is_flag=True, help="Check each FLEET on its own instead of merging them.")
@templates_option
@click.pass_obj
def command(
    console: Console,
    /,
    request: FleetRequest,
    **options: Any,  # noqa: ANN401 - what click parsed
) -> int:
    """Check a fleet file, and the files rendered from it with the real programs.

    Checks the schema, the rules across keys, what each target supports, and runs nginx -t, haproxy -c or
    envoy --mode validate on the rendered files. Host names, certificates, secrets, users and addresses that
    this machine does not have are replaced by stand-ins for this check.
    """
    wanted = Wanted(**options)
    choice = _choice(wanted)
    fleets = [request._replace(names=(name,)) for name in request.names] if wanted.each else [request]
    problems: list[Problem] = []
    verdicts: list[Verdict] = []
    sources: list[Source] = []
    for one in fleets:
        found, spoken = _checked(console, one, choice)
        if len(fleets) > 1:
            spoken = [verdict._replace(line=f"{one.names[0]}: {verdict.line}") for verdict in spoken]
        problems, verdicts, sources = problems + found, verdicts + spoken, [*sources, *console.sources]
    console.sources = sources
    _report(console, problems, verdicts, wanted)
    return _exit_code(problems, verdicts, choice, strict=wanted.strict)


def _checked(console: Console, request: FleetRequest, choice: Choice) -> tuple[list[Problem], list[Verdict]]:
    """Return what is wrong with one fleet, and what the real checkers said of it."""
    loaded = load_fleet(console, request)
    sources = tuple(console.sources)
    problems = list(loaded.problems)
    verdicts: list[Verdict] = []
    if loaded.fleet is not None and not any(problem.is_error for problem in problems):
        verdicts = _verdicts(console, for_balancer(loaded.fleet, request.balancer), choice)
        found = [problem for verdict in verdicts for problem in verdict.problems]
        if choice.resolve:
            found += several_addresses(loaded.fleet)
        problems += _placed(found, loaded, sources)
        _say_costs(console, loaded.fleet)
    return problems, verdicts


def _placed(problems: list[Problem], loaded: Loaded, sources: Sequence[Source]) -> list[Problem]:
    """Return what the programs found, that about the fleet at its line, unless that says to ignore it."""
    if loaded.document is None:
        return problems
    found = [
        problem._replace(location=loaded.document.locate(problem.path)) if problem.path else problem
        for problem in problems
    ]
    ignored = without_ignored(found, sources, complete=False)
    return [problem for problem in ignored if problem in found]


def _choice(wanted: Wanted) -> Choice:
    try:
        choice = parse_choice(wanted.binary, list(TARGETS))
    except ValueError as error:
        raise click.UsageError(f"--binary: {error}") from None
    return choice._replace(resolve=wanted.resolve, templates=templates_folder(wanted.templates))


def _verdicts(console: Console, fleet: Fleet, choice: Choice) -> list[Verdict]:
    verdicts = []
    for settings in fleet.targets:
        verdict = check_target(fleet, settings.name, choice, say=console.detail)
        console.sources = [*console.sources, *(Source(name, text) for name, text in verdict.files)]
        verdicts.append(verdict)
    return verdicts


def _say_costs(console: Console, fleet: Fleet) -> None:
    for settings in fleet.targets:
        for note in TARGETS[settings.name].notes(fleet):
            console.note(f"{settings.name}: {note}")


def _report(
    console: Console, problems: Sequence[Problem], verdicts: Sequence[Verdict], wanted: Wanted
) -> None:
    kind = wanted.format or ("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text")
    if kind == "text":
        console.problems(problems)
    else:
        console.result(FORMATS[kind](problems, console.sources))
    for verdict in verdicts:
        for note in verdict.notes:
            console.note(f"{verdict.target}: {note}")
        (console.result if kind == "text" else console.note)(verdict.line)
    if kind == "text" and (problems or not verdicts):
        console.note(summary(problems))
    skipped = [verdict.target for verdict in verdicts if not verdict.checked]
    if kind == "text" and skipped and not any(problem.is_error for problem in problems):
        what = (
            "the fleet is"
            if len({verdict.target for verdict in verdicts}) == len(verdicts)
            else "the fleets are"
        )
        names = " and ".join(dict.fromkeys(skipped))
        console.note(f"{what} valid; the rendered files were not tried on the real {names}")


def _exit_code(
    problems: Sequence[Problem], verdicts: Sequence[Verdict], choice: Choice, *, strict: bool
) -> int:
    if any(problem.is_error for problem in problems) or (strict and problems):
        return 1
    if choice.mode == "required" and not all(verdict.checked for verdict in verdicts):
        return 2
    return 0
