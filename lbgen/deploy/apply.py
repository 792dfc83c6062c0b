"""Putting a fleet into effect: check first, replace at once, look whether it runs, else go back.

Whenever this is killed, each file is whole, old or new, and the balancer runs on with
the configuration that it has.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lbgen.deploy.backup import Backup
from lbgen.deploy.candidate import check_candidate, tidy_up
from lbgen.deploy.effect import runs_other, take_effect
from lbgen.deploy.lock import RefusedError, locked
from lbgen.deploy.planning.plan import make_plan
from lbgen.deploy.reload import HungError
from lbgen.deploy.runtime.in_step import loaded
from lbgen.deploy.runtime.kept import through_reload
from lbgen.deploy.runtime.overlap import overlap
from lbgen.deploy.runtime.watched_files import files_with_held
from lbgen.files import write_files
from lbgen.problems import LbgenError
from lbgen.reading import read_text
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.deploy.job import Job
    from lbgen.deploy.planning.plan import Plan
    from lbgen.deploy.reload import Reload

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, whoever manages services or jobs, and a connection that broke."""


_OTHER_RUNS = "reload it with --reload; or, to replace it, stop it and start the new one with --start"


def apply(job: Job, say: Callable[[str], None]) -> Plan:
    """Do it; `say` hears each step. Returns the plan that was carried out.

    Raises `RefusedError` when nothing was touched, `LbgenError` when the old state was brought back.
    """
    with locked(job.directory, say):
        tidy_up(job.directory)
        files, held = files_with_held(job.target, job.directory, job.files)
        job = job._replace(files=files)
        plan = make_plan(job.target, job.directory, job.files, socket=job.socket is not None, again=job.again)
        plan = plan._replace(kept=held)
        _refuse_unwanted(plan, job)
        job = _to_start(job, plan)
        if plan.is_empty:
            if not job.start and not _outdated(job, plan, say):
                return plan
            plan = plan._replace(loaded=True)
        if plan.unfinished:
            say("a previous apply was interrupted: its backup is kept")
        say(f"{job.target}: {check_candidate(job)}")
        backup = Backup(job.directory, job.files[0].path)
        try:
            in_effect = _change(plan, job, backup, say)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, the old files come back
            reason = _reason(error)
            hung = isinstance(error, (KeyboardInterrupt, HungError))
            with _undisturbed():
                back = _roll_back(_impatient(job) if hung else job, backup, say)
            raise LbgenError(f"{reason}\nrolled back: {back}") from None
        with _undisturbed():
            if in_effect or not plan.unfinished:
                backup.finish()
        return plan._replace(in_effect=in_effect)


def _to_start(job: Job, plan: Plan) -> Job:
    """Return the job with either a start, where nothing runs, or none; raises `RefusedError`."""
    starts = job.start is not None and job.silent()
    if job.start and not starts and (held := job.strangers()):
        raise RefusedError(
            f"another program is listening on {', '.join(held)}: the balancer cannot be started"
        )
    wanted = job.start is not None or not plan.files[0].old
    if wanted and not starts and not job.reload and not job.socket and runs_other(plan, job):
        raise RefusedError(f"another balancer of lbgen is listening there: {_OTHER_RUNS}")
    return job._replace(reload=None) if starts else job._replace(start=None)


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) if isinstance(error, (LbgenError, OSError)) else f"internal error: {error!r}"


def _outdated(job: Job, plan: Plan, say: Callable[[str], None]) -> bool:
    """Tell whether the balancer has to load these files, though they lie there: it is seen to run others.

    Raises `RefusedError` when nobody said how.
    """
    if not runs_other(plan, job):
        return False
    words = "the files are up to date, but the balancer runs with older ones"
    if job.reload is None:
        raise RefusedError(f"{words}: {_OTHER_RUNS}")
    say(f"{job.target}: {words}")
    return True


def _change(plan: Plan, job: Job, backup: Backup, say: Callable[[str], None]) -> bool:
    """Replace the files and let them take effect; return whether they did."""
    backup.take(plan.files)
    if job.watcher and not job.start:
        overlap(job.watcher, plan.files, job.patience_s, say)
    write_files(job.directory, job.files, force=job.force)
    say(f"{job.target}: files replaced")
    return take_effect(plan, job, say)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let nobody interrupt what follows: a second Ctrl-C would leave the way back half done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _refuse_unwanted(plan: Plan, job: Job) -> None:
    if job.expect is not None and job.expect != plan.digest:
        raise RefusedError(
            f"the plan is now {plan.digest}, not {job.expect}: the fleet or the files have changed since\n"
            + plan.diff()
        )
    if plan.foreign and not job.force:
        names = ", ".join(str(change.path) for change in plan.foreign)
        raise RefusedError(f"{names}: not written by lbgen, not replaced (--force replaces it)")
    for loss in plan.losses:
        if loss.share > job.max_change:
            raise RefusedError(
                f"pool {loss.pool} would lose {loss.lost} of {loss.had} servers at once, more than "
                f"{job.max_change:.0%}: --max-change {loss.needed}% allows it"
            )


def _roll_back(job: Job, backup: Backup, say: Callable[[str], None]) -> str:
    """Bring the old files back and reload; return how that went, in words."""
    try:
        ran = backup.restore()
    except OSError as error:
        return f"not all of the old files could be restored; the next apply will try again: {error}"
    started = "; the started program may still run: stop it" if job.start else ""
    if not ran:
        backup.finish()
        return f"the new files are removed; there were none before{started}"
    words = f"the old files are restored{started}"
    if job.reload:
        try:
            again = _reload_back(job, job.reload, say)
        except LbgenError as error:
            return f"{words}, but reloading them failed as well: {error}"
        words += ", and run" if again else ", but no listener answers with them: look at the balancer"
    backup.finish()
    return words


def _impatient(job: Job) -> Job:
    """Return the job with a reload that cannot hang again for as long as it did."""
    reload = job.reload
    return job._replace(reload=reload._replace(act=reload.again)) if reload and reload.again else job


def _reload_back(job: Job, reload: Reload, say: Callable[[str], None]) -> bool:
    """Reload the old files and tell whether they run."""
    time.sleep(TARGETS[job.target].program.settle_s)
    main = job.directory / job.files[0].path
    text = read_text(main, errors="surrogateescape")
    file = TARGETS[job.target].read(text)
    with through_reload(job.target, job.socket, main, file, file, say):
        reload.act()
        loaded(job.directory)
        return job.runs_again(text)
