"""``lbgen apply``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lbgen.checker.programs import differs, find, version_here
from lbgen.cli.inputs import load_fleet, only_target, seconds, templates_folder, usable_fleet
from lbgen.cli.operate.apply_ways import reload_of, require_pid, share_of, smoke_of, start_of
from lbgen.cli.operate.plan import as_before, changed_lines, choice_of, folder_of, values
from lbgen.cli.options import Command, fleet_options, format_option, option, templates_option
from lbgen.cli.progress import Progress
from lbgen.cli.signals import end_as_ctrl_c_does
from lbgen.deploy.addresses import taken_addresses
from lbgen.deploy.apply import apply
from lbgen.deploy.candidate import in_users_words
from lbgen.deploy.job import Job
from lbgen.deploy.lock import RefusedError
from lbgen.deploy.planning.plan import MAX_CHANGE
from lbgen.deploy.reload import (
    NOT_STARTED,
    SILENT_S,
    nothing_listens,
    ready_listeners,
    runs_again,
    runs_other,
    strangers,
    verify,
)
from lbgen.deploy.runtime.watched_files import watchers
from lbgen.files import has_header, write_files
from lbgen.problems import LbgenError, printable
from lbgen.reading import read_text
from lbgen.render import render
from lbgen.runtimes.spec import NoProgramError
from lbgen.secret_values import RealSecrets
from lbgen.targets.common.answers import files_named
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lbgen.checker.programs import Choice
    from lbgen.cli.console import Console
    from lbgen.cli.options import FleetRequest
    from lbgen.model import Fleet, TargetSettings
    from lbgen.render import RenderedFile


PATIENCE = "15s"


class Wanted(NamedTuple):
    """What the options of one call ask for."""

    to: str
    expect: str | None
    reload: str | None
    start: str | None
    pid: str | None
    master_socket: str | None
    timeout: str
    smoke: str | None
    smoke_model: str | None
    max_change: str
    force: bool
    binary: tuple[str, ...]
    format: str
    templates: str | None


@click.command(cls=Command)
@fleet_options
@option(
    "--to",
    metavar="PATH",
    required=True,
    type=click.Path(),
    help="The target's configuration folder, such as /etc/haproxy, or its main file.",
)
@option("--expect", metavar="DIGEST", help="Refuse to apply anything but the plan with this digest.")
@option(
    "--reload",
    metavar="CMD",
    help="Command that reloads the balancer, such as 'systemctl reload nginx'; run without a shell.",
)
@option(
    "--start",
    metavar="CMD",
    help="Command that starts the balancer if nothing listens yet, such as 'systemctl start haproxy'; it "
    "must return, so run a program that stays in the foreground, such as Envoy, by a service manager.",
)
@option("--pid", metavar="FILE", type=click.Path(), help="Reload by a signal to the master process in FILE.")
@option("--master-socket", metavar="PATH", help="Reload over HAProxy's master socket.")
@option(
    "--timeout",
    default=PATIENCE,
    show_default=True,
    help="How long to wait for the new workers to answer, and to be ready if the old ones were.",
)
@option(
    "--smoke",
    metavar="PATH",
    help="After the change, stream one small request through the first listener, such as"
    " /v1/chat/completions, with the first client's key; roll back unless it is answered.",
)
@option(
    "--smoke-model", metavar="NAME", help="Model for --smoke. Default: the first one that the fleet names."
)
@option(
    "--max-change",
    metavar="PERCENT",
    default=f"{MAX_CHANGE:.0%}",
    show_default=True,
    help="Refuse to remove a larger share of a pool's servers at once.",
)
@option("--force", is_flag=True, help="Also replace files that lbgen did not write.")
@option(
    "--binary",
    multiple=True,
    metavar="none|TARGET=PATH|TARGET=docker://IMAGE",
    help="Program to check the files with, instead of the one on PATH; none: replace the files unchecked.",
)
@format_option("Report the result for people (text) or for programs (json).")
@templates_option
@click.pass_obj
def command(console: Console, /, request: FleetRequest, **options: Any) -> int:  # noqa: ANN401 - click's
    """Apply a fleet: check, replace the files, reload, verify; roll back on failure.

    Exit code 1: refused, nothing was changed. Exit code 2: it failed, and the old files were restored.
    """
    end_as_ctrl_c_does()
    wanted = Wanted(**options)
    choice = choice_of(wanted.binary)
    patience = seconds("--timeout", wanted.timeout)
    fleet = usable_fleet(console, load_fleet(console, request), request)
    settings = only_target(fleet, "an apply")
    templates = templates_folder(wanted.templates)
    folder = folder_of(wanted.to, settings.name)
    files = render(fleet, settings.name, templates=templates, secrets=RealSecrets(folder=folder))

    def check(main: Path) -> str:
        require_pid(wanted)
        return _check(settings, choice, _checked(fleet, settings.name, main, templates))

    job = Job(
        target=settings.name,
        directory=folder,
        files=files,
        check=check,
        reload=reload_of(settings.name, wanted),
        verify=_verify(console, fleet, settings.name, files, wanted, patience),
        smoke=smoke_of(fleet, settings, wanted),
        start=start_of(wanted),
        silent=lambda: nothing_listens(fleet),
        strangers=lambda: strangers(fleet, settings.name),
        runs_again=lambda text: runs_again(fleet, settings.name, text, patience),
        runs_other=lambda names: runs_other(fleet, settings.name, names),
        socket=settings.runtime_socket,
        watcher=next(iter(watchers(fleet)), None),
        patience_s=patience,
        again=as_before(fleet, settings.name, templates),
        expect=wanted.expect,
        max_change=share_of(wanted.max_change),
        force=wanted.force,
    )
    return _carry_out(console, job, wanted.format)


def _carry_out(console: Console, job: Job, form: str) -> int:
    try:
        plan = apply(job, console.note)
    except RefusedError as error:
        console.error(f"refused, nothing was changed: {error}")
        _as_json(console, form, {"target": job.target, "outcome": "refused", "message": str(error)})
        return 1
    except (LbgenError, OSError) as error:
        _as_json(console, form, {"target": job.target, "outcome": "failed", "message": str(error)})
        raise
    outcome = "unchanged" if plan.is_empty and not plan.loaded else "applied"
    effect = {} if outcome == "unchanged" else {"in_effect": plan.in_effect}
    if _as_json(console, form, {"target": job.target, "outcome": outcome, **effect, **values(plan)}):
        return 0
    for line in changed_lines(console, plan):
        console.result(f"{job.target}: {line}")
    if plan.is_empty:
        console.result(f"{job.target}: no changes" + (", and loaded now" if plan.loaded else ""))
    if not plan.in_effect:
        console.warning(_not_in_effect(job.target))
    return 0


def _not_in_effect(target: str) -> str:
    if TARGETS[target].abilities.watches:
        start = f"--start 'systemctl start {target}'"
        return f"not started: nothing is listening; start it, for example with {start}"
    return (
        f"not reloaded: the new files take effect when {target} is reloaded or started, for example with"
        f" 'systemctl reload {target}'; lbgen does this with --reload CMD or --start CMD"
    )


def _as_json(console: Console, form: str, value: dict[str, Any]) -> bool:
    """Print what came of it for programs, if they are who asked; tell whether they did."""
    if form == "json":
        console.result(printable(json.dumps(value, indent=2, ensure_ascii=False)))
    return form == "json"


def _checked(fleet: Fleet, target: str, main: Path, templates: Path | None) -> Path:
    """Return the candidate's main file, rendered anew where the program would not see all in the real one."""
    named, to = fleet.target(target).directory, main.parent.parent.resolve()
    if TARGETS[target].abilities.watches and Path(named).resolve() != to:
        raise RefusedError(
            f"the files refer to {named}, but --to is {to}: set targets.{target}.directory: {to}"
        )
    whole = TARGETS[target].checks.whole(fleet, main.parent)
    if whole is not fleet:
        files = render(whole, target, templates=templates, secrets=RealSecrets(folder=main.parent.parent))
        write_files(main.parent, files)
    return main


def _check(settings: TargetSettings, choice: Choice, main: Path) -> str:
    """Let the real checker see the candidate and say how it went; raises `RefusedError` with its words."""
    if choice.mode == "none" and settings.name not in choice.named:
        return "the new files are not checked (--binary none)"
    try:
        found = find(settings.name, settings.version, choice, lambda _: None)
    except NoProgramError as error:
        raise RefusedError(
            f"the new files cannot be checked with {settings.name}: {error}; give the program that runs"
            f" here with --binary {settings.name}=PATH (or =docker://IMAGE), its version with"
            " --target-version"
        ) from None
    # In a container it sees the target's folder, too: the candidate's links lead there.
    folder = main.resolve().parent.parent
    finished = found.program.run(
        TARGETS[settings.name].program.checking(main.resolve(), found.version), folder
    )
    if finished.code != 0:
        said = in_users_words(finished.output.strip(), main)
        raise RefusedError(f"{settings.name} {found.version} refuses the new files:\n{said}")
    if not found.program.in_container:
        _refuse_taken(main)
    line = f"{settings.name} {found.version} accepts the new files{differs(found.version, settings.version)}"
    here = version_here(settings.name, choice)
    return line if here in {None, found.version} else f"{line}; installed here is {here}"


def _refuse_taken(main: Path) -> None:
    """Raise `RefusedError` when the candidate, which lies beside the old file, binds what others hold.

    Where the old file is not ours, nobody knows which addresses the balancer itself holds.
    """
    old = main.parent.parent / main.name
    text = read_text(old, errors="replace") if old.exists() else ""
    taken = taken_addresses(text, read_text(main, errors="replace")) if has_header(text) else []
    if taken:
        raise RefusedError(f"another program listens on {', '.join(taken)}: a reload would fail")


def _verify(  # noqa: PLR0913, PLR0917 - all that decides it
    console: Console,
    fleet: Fleet,
    target: str,
    files: Sequence[RenderedFile],
    wanted: Wanted,
    patience: float,
) -> Callable[[], list[str]]:
    """Return what looks whether the new workers serve."""
    watches = TARGETS[target].abilities.watches
    reloads = wanted.reload or wanted.pid or wanted.master_socket or watches
    ready = ready_listeners(fleet, target) if reloads else frozenset[str]()
    name = files_named(files[0].text)
    waiting = Progress(console, "s: waiting for the new configuration to answer", estimates=False).show
    if not wanted.reload or wanted.start or not nothing_listens(fleet):
        return lambda: verify(fleet, target, name, ready, patience, waiting)

    def started() -> list[str]:
        """Look for the little while in which a reload command may have started it."""
        try:
            least = SILENT_S if wanted.timeout == PATIENCE else patience
            return verify(fleet, target, name, ready, least, waiting)
        except LbgenError as error:
            raise LbgenError(f"{error}\nnothing listened there before: {NOT_STARTED}") from None

    return started
