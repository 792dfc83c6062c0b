"""``lbgen plan``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lbgen.checker.check import CHECKERS
from lbgen.checker.programs import differs, parse_choice, version_here
from lbgen.cli.inputs import load_fleet, only_target, templates_folder, usable_fleet
from lbgen.cli.options import Command, fleet_options, format_option, option, templates_option
from lbgen.deploy.inventory import READERS
from lbgen.deploy.kept import as_json, kept
from lbgen.deploy.plan import MAX_CHANGE, make_plan
from lbgen.deploy.words import Step
from lbgen.files import known_secrets
from lbgen.problems import LbgenError, printable
from lbgen.render import render
from lbgen.secret_values import StandInSecrets
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.checker.programs import Choice
    from lbgen.cli.console import Console
    from lbgen.cli.options import FleetRequest
    from lbgen.deploy.kept import Kept
    from lbgen.deploy.plan import Loss, Plan
    from lbgen.model import Fleet, TargetSettings

NAMED = 8
"""How many servers that change alike are named."""


@click.command(cls=Command)
@fleet_options
@option(
    "--to", metavar="PATH", required=True, type=click.Path(), help="The target's folder, or its main file."
)
@format_option(
    "For people, for programs, or for a pull request's comment.", "text", "json", "markdown", name="form"
)
@option(
    "--binary",
    multiple=True,
    metavar="none|TARGET=PATH|TARGET=docker://IMAGE",
    help="The program whose version is compared with the fleet's, if not the one installed here.",
)
@option("--diff", is_flag=True, help="Show the text difference, too.")
@option("--exit-code", is_flag=True, help="Exit 1 when there are changes.")
@templates_option
@click.pass_obj
def command(  # noqa: PLR0913, PLR0917 - one parameter an option
    console: Console,
    /,
    request: FleetRequest,
    to: str,
    form: str,
    binary: tuple[str, ...],
    diff: bool,
    exit_code: bool,
    templates: str | None,
) -> int:
    """Say what applying a fleet would change, in words of pools and servers.

    The digest that it ends with binds 'lbgen apply --expect DIGEST' to just this change.
    """
    choice = choice_of(binary)
    fleet = usable_fleet(console, load_fleet(console, request), request)
    settings = only_target(fleet, "a plan")
    plan = _plan(console, fleet, folder_of(to, settings.name), templates_folder(templates))
    here = version_here(settings.name, CHECKERS[settings.name], choice)
    if here and (other := differs(here, settings.version)):
        console.note(f"{settings.name} here is {here}{other}")
    console.result(printable({"text": _text, "json": _json, "markdown": _markdown}[form](plan, diff=diff)))
    return 1 if exit_code and not plan.is_empty else 0


def _plan(console: Console, fleet: Fleet, folder: Path, templates: Path | None) -> Plan:
    (settings,) = fleet.targets
    secrets = StandInSecrets()
    files = render(
        fleet,
        settings.name,
        templates=templates,
        secrets=secrets,
        settle=known_secrets(folder, secrets),
    )
    if secrets.missing:
        names = ", ".join(str(secret) for secret in secrets.missing)
        console.note(f"not to be had here: {names}; files that hold secrets are taken as they are")
    plan = make_plan(settings.name, folder, files, socket=settings.runtime_socket is not None)
    return plan._replace(kept=_kept(console, settings, plan))


def _kept(console: Console, settings: TargetSettings, plan: Plan) -> tuple[Kept, ...]:
    """Return what stays drained; nothing where HAProxy cannot be asked, such as in a pipeline."""
    if settings.name != "haproxy" or settings.runtime_socket is None:
        return ()
    read, main = READERS["haproxy"], plan.changes[0]
    try:
        return kept(settings.runtime_socket, read(main.old), read(main.new))
    except LbgenError as error:
        console.detail(f"what is drained at run time is not known: {error}")
        return ()


def choice_of(binary: tuple[str, ...]) -> Choice:
    """Return what ``--binary`` says; raises `click.UsageError`."""
    try:
        return parse_choice(binary, list(TARGETS))
    except ValueError as error:
        raise click.UsageError(f"--binary: {error}") from None


def folder_of(path: str, target: str) -> Path:
    """Return the folder of a target's files for ``--to``: the path itself, or where the main file lies.

    Raises `click.UsageError` for what is neither.
    """
    place, main = Path(path), TARGETS[target].main_file
    if not path.strip():
        raise click.UsageError("--to names no folder: is a variable of the shell empty?")
    if place.is_dir():
        return place
    if place.name == main:
        return place.parent
    if place.suffix in {".conf", ".cfg"} or place.exists():
        raise click.UsageError(f"--to {path}: name the folder of {target}'s files, or the {main} in it")
    return place


def _text(plan: Plan, *, diff: bool) -> str:
    lines = [f"{plan.target}: {_summary(plan)}"]
    lines += [f"  {_loss(loss)}" for loss in plan.losses if loss.share > MAX_CHANGE]
    lines += [f"  {in_words(step)}{_how(plan, reload=step.reload)}" for step in gathered(plan.steps)]
    lines += [f"  {one.words}" for one in plan.kept]
    if diff:
        lines.append(plan.diff().rstrip("\n"))
    lines.append(f"digest {plan.digest}")
    return "\n".join(lines)


def in_words(step: Step) -> str:
    """Return a change as one line."""
    return f"pool {step.pool}: {step.words}" if step.pool else step.words


def gathered(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps, those that say the same of several servers of a pool as one."""
    groups: dict[tuple[str, bool, str], list[Step]] = {}
    for step in steps:
        groups.setdefault(_apart_from_server(step), []).append(step)
    for (pool, reload, words), alike in groups.items():
        if len(alike) == 1 or words == alike[0].words:
            yield alike[0]
            continue
        servers = [step.words.removeprefix(words).split()[0] for step in alike]
        more = f" and {len(servers) - NAMED} more" if len(servers) > NAMED else ""
        names = ", ".join(servers[:NAMED]) + more
        yield Step(pool, f"{words} {names}" if words in "+-" else f"{names}: {words}", reload)


def _apart_from_server(step: Step) -> tuple[str, bool, str]:
    """Return what steps on servers have in common; for others all that they say."""
    first, _, words = step.words.partition(" ")
    if not step.pool or first.endswith(":"):
        return step.pool, step.reload, step.words
    return step.pool, step.reload, first if first in {"+", "-"} else words


def _how(plan: Plan, *, reload: bool) -> str:
    return "" if plan.target != "haproxy" else " (reload)" if reload else " (runtime socket)"


def _summary(plan: Plan) -> str:
    if plan.is_empty:
        return "no changes"
    number = len(plan.steps)
    ending = "a reload" if plan.reload or plan.target == "nginx" else "no reload needed"
    if not number:
        return "the same configuration, written otherwise: comments, or the digest that files name"
    return f"{number} change{'s' if number != 1 else ''}, {ending}"


def values(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON has it."""
    return {
        "target": plan.target,
        "changes": [
            {"pool": step.pool or None, "change": step.words, "reload": step.reload} for step in plan.steps
        ],
        "files": [{"path": str(change.path), "kind": change.kind} for change in plan.changes],
        "kept": as_json(plan.kept),
        "losses": [{"pool": loss.pool, "lost": loss.lost, "had": loss.had} for loss in plan.losses],
        "reload": plan.reload,
        "empty": plan.is_empty,
        "unfinished": plan.unfinished,
        "digest": plan.digest,
    }


def _json(plan: Plan, *, diff: bool) -> str:
    value = values(plan) | ({"diff": plan.diff()} if diff else {})
    return json.dumps(value, indent=2, ensure_ascii=False)


def _markdown(plan: Plan, *, diff: bool) -> str:
    lines = [f"### lbgen plan: {plan.target}", "", f"{_summary(plan)}", ""]
    if plan.steps:
        lines += ["| change | takes effect by |", "|---|---|"]
        for step in gathered(plan.steps):
            lines.append(f"| {_cell(in_words(step))} | {'reload' if step.reload else 'runtime socket'} |")
        lines.append("")
    lines += [f"{_cell(one.words)}\n" for one in plan.kept]
    for loss in plan.losses:
        if loss.share > MAX_CHANGE:
            lines += [f"> **Large:** {_cell(_loss(loss))}", ""]
    if diff and not plan.is_empty:
        text = plan.diff().rstrip("\n")
        fence = "`" * max(4, 1 + max(map(len, re.findall("`+", text)), default=0))
        lines += ["<details><summary>Text difference</summary>", "", f"{fence}diff", text]
        lines += [fence, "", "</details>", ""]
    lines.append(f"Digest: `{plan.digest}`")
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Return text for a Markdown table: nothing in it is markup, a mention or a cell's end."""
    return re.sub(r"([\\`*_{}\[\]<>|@~])", lambda found: f"&#{ord(found[1])};", text)


def _loss(loss: Loss) -> str:
    lost = f"{loss.lost} of {loss.had} servers"
    return f"pool {loss.pool} loses {lost} at once: apply needs --max-change {loss.needed}%"
