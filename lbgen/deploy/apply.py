"""Putting a fleet into effect: check first, replace at once, look whether it runs, else go back.

Whenever this is killed, each file is whole, old or new, and the balancer runs on with
the configuration that it has.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from lbgen.deploy.inventory import READERS
from lbgen.deploy.plan import make_plan
from lbgen.deploy.runtime_socket import RuntimeSocket, commands
from lbgen.files import write_files
from lbgen.problems import LbgenError
from lbgen.render import RenderedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lbgen.deploy.plan import Plan
    from lbgen.deploy.reload import Reload

LOCK_WAIT_S = 60.0
SETTLE_S = {"haproxy": 1.0}
"""Until the next reload may come: HAProxy's master loses one that comes right after another (seen on 2.6 and
3.0), or resets the connections that wait in between (3.2)."""
CANDIDATE = ".lbgen-candidate"
BACKUP = ".lbgen-backup"


class RefusedError(LbgenError):
    """The change was refused before anything was touched."""


class Job(NamedTuple):
    """What is to be put where, and how."""

    target: str
    directory: Path
    files: Sequence[RenderedFile]
    check: Callable[[Path], str]
    """Runs the real checker on a main file and says how that went; raises `RefusedError` with its words."""
    reload: Reload | None
    verify: Callable[[], list[str]]
    """Raises `LbgenError` when the balancer does not run with the new files."""
    socket: str | None = None
    """HAProxy's runtime socket."""
    expect: str | None = None
    max_change: float = 0.3
    force: bool = False


def apply(job: Job, say: Callable[[str], None]) -> Plan:
    """Do it; `say` hears each step. Returns the plan that was carried out.

    Raises `RefusedError` when nothing was touched, `LbgenError` when the old state was brought back.
    """
    with _locked(job.directory, say):
        plan = make_plan(job.target, job.directory, job.files, socket=job.socket is not None)
        _refuse_unwanted(plan, job)
        if plan.is_empty:
            return plan
        say(f"{job.target}: {_check_candidate(job)}")
        _back_up(plan, job.directory)
        write_files(job.directory, job.files, force=job.force)
        say(f"{job.target}: files replaced")
        _take_effect(plan, job, say)
        return plan


def _refuse_unwanted(plan: Plan, job: Job) -> None:
    if job.expect and job.expect != plan.digest:
        raise RefusedError(
            f"the plan is now {plan.digest}, not {job.expect}: the fleet or the files have changed since\n"
            + plan.diff()
        )
    if plan.foreign and not job.force:
        names = ", ".join(str(change.path) for change in plan.foreign)
        raise RefusedError(f"{names}: not written by lbgen, so it is left alone (--force replaces it)")
    for loss in plan.losses:
        if loss.share > job.max_change:
            raise RefusedError(
                f"pool {loss.pool} would lose {loss.lost} of {loss.had} servers at once, more than "
                f"{job.max_change:.0%}: --max-change {min(100, -(-100 * loss.lost // loss.had))}% allows it"
            )


@contextmanager
def _locked(directory: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the directory's lock: one apply at a time."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory / ".lbgen.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        end = time.monotonic() + LOCK_WAIT_S
        told = False
        while not _try_lock(descriptor):
            if not told:
                say("another apply is at work here: waiting for it")
                told = True
            if time.monotonic() > end:
                raise RefusedError(f"another apply has been at work in {directory} for {LOCK_WAIT_S:.0f} s")
            time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _check_candidate(job: Job) -> str:
    """Let the real checker see the new files, beside the old ones and on the same file system."""
    candidate = job.directory / CANDIDATE
    shutil.rmtree(candidate, ignore_errors=True)  # of an apply that was killed
    try:
        write_files(candidate, job.files)
        _link_neighbours(job.directory, candidate)
        return job.check(candidate / job.files[0].path)
    finally:
        shutil.rmtree(candidate, ignore_errors=True)


def _link_neighbours(directory: Path, candidate: Path) -> None:
    """Put what lies beside the files, such as certificates, beside the candidate, too."""
    for neighbour in directory.iterdir():
        if not neighbour.name.startswith(".lbgen") and not (candidate / neighbour.name).exists():
            (candidate / neighbour.name).symlink_to(neighbour.resolve())


def _back_up(plan: Plan, directory: Path) -> None:
    """Keep the files as they were before: one backup, of the last apply."""
    backup = directory / BACKUP
    shutil.rmtree(backup, ignore_errors=True)
    for change in plan.changes:
        if change.path.exists():
            place = backup / change.path.relative_to(directory)
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.copy2(change.path, place)


def _take_effect(plan: Plan, job: Job, say: Callable[[str], None]) -> None:
    try:
        if job.socket and not plan.reload:
            _over_socket(plan, job)
            say(f"{job.target}: changed over the runtime socket, without a reload")
        elif job.reload:
            job.reload.act()
            say(f"{job.target}: reloaded ({job.reload.words})")
            for line in job.verify():
                say(line)
            time.sleep(SETTLE_S.get(job.target, 0))
        else:
            say(f"{job.target}: not reloaded; say how with --reload")
    except (LbgenError, KeyboardInterrupt) as error:
        reason = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        raise LbgenError(f"{reason}\nrolled back: {_roll_back(plan, job)}") from None


def _over_socket(plan: Plan, job: Job) -> None:
    read = READERS[job.target]
    main = plan.changes[0]
    socket = RuntimeSocket(job.socket or "")
    for command in commands(read(main.old), read(main.new)):
        socket.order(command)


def _roll_back(plan: Plan, job: Job) -> str:
    """Bring the old files back and reload; return how that went, in words."""
    old = [
        RenderedFile(str(change.path.relative_to(job.directory)), change.old, change.secret)
        for change in plan.changes
        if change.kind != "new"
    ]
    for change in plan.changes:
        if change.kind == "new":
            change.path.unlink(missing_ok=True)
    write_files(job.directory, old, force=True)
    if not old:
        return "the new files are gone again; there were none before"
    if job.reload:
        try:
            job.reload.act()
        except LbgenError as error:
            return f"the old files are in place again, but reloading them failed, too: {error}"
    return "the old files are in place again"
