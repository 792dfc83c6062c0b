"""``lbgen plan``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lbgen.checker.programs import differs, parse_choice, version_here
from lbgen.cli.inputs import load_fleet, only_target, templates_folder, usable_fleet
from lbgen.cli.operate.plan_words import gathered, how, summary
from lbgen.cli.options import Command, fleet_options, format_option, option, templates_option
from lbgen.deploy.planning.plan import MAX_CHANGE, make_plan
from lbgen.deploy.runtime.inventory_diff import Lines
from lbgen.deploy.runtime.kept import as_json, kept
from lbgen.files import known_secrets
from lbgen.problems import LbgenError, printable
from lbgen.render import render
from lbgen.secret_values import StandInSecrets
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lbgen.checker.programs import Choice
    from lbgen.cli.console import Console
    from lbgen.cli.options import FleetRequest
    from lbgen.deploy.planning.change import Change
    from lbgen.deploy.planning.plan import Loss, Plan
    from lbgen.deploy.runtime.kept import Kept
    from lbgen.model import Fleet, TargetSettings
    from lbgen.render import RenderedFile


@click.command(cls=Command)
@fleet_options
@option(
    "--to",
    metavar="PATH",
    required=True,
    type=click.Path(),
    help="The target's configuration folder, such as /etc/haproxy, or its main file.",
)
@format_option(
    "Output for people (text), programs (json) or a pull request's comment (markdown).",
    "text",
    "json",
    "markdown",
    name="form",
)
@option(
    "--binary",
    multiple=True,
    metavar="none|TARGET=PATH|TARGET=docker://IMAGE",
    help="The program whose version is compared with the fleet's, instead of the one installed here.",
)
@option("--diff", is_flag=True, help="Also show the textual difference.")
@option("--exit-code", is_flag=True, help="Exit 1 if there are changes.")
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
    """Show what applying a fleet would change, by pools and servers.

    'lbgen apply --expect DIGEST', with the digest on the last line, applies exactly this change and no other.
    """
    choice = choice_of(binary)
    fleet = usable_fleet(console, load_fleet(console, request), request)
    settings = only_target(fleet, "a plan")
    plan = _plan(console, fleet, folder_of(to, settings.name), templates_folder(templates))
    here = version_here(settings.name, choice)
    if here and (other := differs(here, settings.version)):
        console.note(f"{settings.name} here is {here}{other}")
    texts = {
        "text": lambda: _text(console, plan, diff=diff),
        "json": lambda: printable(_json(plan, diff=diff)),
    }
    texts["markdown"] = lambda: printable(_markdown(plan, diff=diff))
    console.result(texts[form]())
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
        console.note(
            f"not available here: {names}; the existing files with secrets are assumed to be up to date"
        )
    plan = make_plan(
        settings.name,
        folder,
        files,
        socket=settings.runtime_socket is not None,
        again=as_before(fleet, settings.name, templates),
    )
    return plan._replace(kept=_kept(console, settings, plan))


def as_before(fleet: Fleet, target: str, templates: Path | None) -> Callable[[Fleet], Sequence[RenderedFile]]:
    """Return what renders an earlier fleet as this one is rendered, with stand-ins for its secrets."""
    return lambda before: render(
        before._replace(balancers=before.balancers._replace(own=fleet.balancers.own)),
        target,
        templates=templates,
        secrets=StandInSecrets(),
    )


def _kept(console: Console, settings: TargetSettings, plan: Plan) -> tuple[Kept, ...]:
    """Return what stays drained; nothing where HAProxy cannot be asked, such as in a pipeline."""
    if settings.runtime_socket is None:
        return plan.kept
    read, main = TARGETS[settings.name].read, plan.files[0]
    try:
        return kept(settings.runtime_socket, read(main.old), read(main.new))
    except LbgenError as error:
        console.detail(f"cannot tell which servers are drained at run time: {error}")
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
        raise click.UsageError("--to is empty: is a shell variable not set?")
    if place.is_dir():
        return place
    if place.name == main:
        return place.parent
    if place.suffix in {Path(one.main_file).suffix for one in TARGETS.values()} or place.exists():
        raise click.UsageError(f"--to {path}: give the folder of {target}'s files, or the {main} in it")
    return place


def _text(console: Console, plan: Plan, *, diff: bool) -> str:
    lines = [f"{plan.target}: {_summary(plan)}"]
    lines += [f"  {_loss(loss)}" for loss in plan.losses if loss.share > MAX_CHANGE]
    lines += [f"  {line}" for line in changed_lines(console, plan)]
    lines += [f"  {one.words}" for one in plan.kept]
    if diff:
        lines.append(printable(plan.diff().rstrip("\n")))
    lines.append(f"digest {plan.digest}")
    return "\n".join(lines)


def changed_lines(console: Console, plan: Plan) -> Iterator[str]:
    """Yield a plan's changes for a terminal, coloured by what they do."""
    for change, words in gathered(plan.changes):
        # Without a runtime socket, a reload goes without saying.
        told = TARGETS[plan.target].abilities.runtime_socket or change.effect in {"restart", "none"}
        way = how(change) if told else ""
        style = {"added": "added", "removed": "removed"}.get(change.kind, "altered")
        yield console.styled(printable(words), style, sys.stdout) + (f" ({way})" if way else "")


def _summary(plan: Plan) -> str:
    if plan.is_empty:
        return "no changes"
    number = len(plan.changes)
    way = "a restart" if TARGETS[plan.target].abilities.watches else "a reload"
    ending = way if plan.reload else "no reload needed"
    if not number:
        return "no change in effect: only comments, or the digest in the files"
    return f"{number} change{'s' if number != 1 else ''}, {ending}"


def values(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON has it."""
    return {
        "target": plan.target,
        "changes": [_change_values(change) for change in plan.changes],
        "files": [{"path": str(file.path), "kind": file.kind} for file in plan.files],
        "kept": as_json(plan.kept),
        "losses": [{"pool": loss.pool, "lost": loss.lost, "had": loss.had} for loss in plan.losses],
        "reload": plan.reload,
        "empty": plan.is_empty,
        "unfinished": plan.unfinished,
        "digest": plan.digest,
    }


def _change_values(change: Change) -> dict[str, Any]:
    after = change.after._asdict() if isinstance(change.after, Lines) else change.after
    return {**change._asdict(), "after": after, "summary": summary(change)}


def _json(plan: Plan, *, diff: bool) -> str:
    value = values(plan) | ({"diff": plan.diff()} if diff else {})
    return json.dumps(value, indent=2, ensure_ascii=False)


def _markdown(plan: Plan, *, diff: bool) -> str:
    lines = [f"### lbgen plan: {plan.target}", "", f"{_summary(plan)}", ""]
    if plan.changes:
        lines += ["| change | takes effect by |", "|---|---|"]
        for change, words in gathered(plan.changes):
            lines.append(f"| {_cell(words)} | {how(change)} |")
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
