"""Putting a fleet into effect: check first, replace at once, look whether it runs, else go back.

Whenever this is killed, each file is whole, old or new, and the balancer runs on with
the configuration that it has.
"""

from __future__ import annotations

import shutil
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from lbgen.deploy.backup import BACKUP, Backup
from lbgen.deploy.lock import RefusedError, locked
from lbgen.deploy.planning.changes import restarts
from lbgen.deploy.planning.plan import MAX_CHANGE, make_plan
from lbgen.deploy.reload import HungError
from lbgen.deploy.runtime.in_step import changed, loaded, names_for
from lbgen.deploy.runtime.kept import through_reload
from lbgen.deploy.runtime.live import change, obstacle
from lbgen.deploy.runtime.watched_files import files_with_held
from lbgen.files import has_header, tidy, write_files
from lbgen.problems import LbgenError
from lbgen.reading import read_text
from lbgen.targets.common.answers import files_named
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from lbgen.deploy.planning.changes import Render
    from lbgen.deploy.planning.plan import Plan
    from lbgen.deploy.reload import Reload
    from lbgen.render import RenderedFile
    from lbgen.targets.inventory import Inventory

CANDIDATE = ".lbgen-candidate"
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, whoever manages services or jobs, and a connection that broke."""


_OTHER_RUNS = (
    "name its reload with --reload, or, to replace it, stop it and name the new one's start with --start"
)


class Job(NamedTuple):
    """What is to be put where, and how."""

    target: str
    directory: Path
    files: Sequence[RenderedFile]
    check: Callable[[Path], str]
    """Runs the real checker on a main file and says how that went; raises `RefusedError` with its words."""
    reload: Reload | None
    """How it takes the new files."""
    verify: Callable[[], list[str]]
    """Raises `LbgenError` when the balancer does not run with the new files."""
    smoke: Callable[[], list[str]] = list
    """Sends a request to a server; raises `LbgenError` when it is not answered well."""
    start: Reload | None = None
    """How it is started where it does not run."""
    silent: Callable[[], bool] = lambda: False
    """Tells whether nothing listens where the fleet's listeners are."""
    strangers: Callable[[], Sequence[str]] = list
    """Names the addresses of listeners that are held by what lbgen did not set up."""
    runs_other: Callable[[AbstractSet[str]], bool] = lambda _: False
    """Tells whether the balancer is seen to name other files than these."""
    runs_again: Callable[[str], bool] = lambda _: True
    """Tells whether the balancer runs the old files again, by their text."""
    socket: str | None = None
    """HAProxy's runtime socket."""
    again: Render | None = None
    """Renders the fleet that lies there, for the plan's words."""
    expect: str | None = None
    max_change: float = MAX_CHANGE
    force: bool = False


def apply(job: Job, say: Callable[[str], None]) -> Plan:
    """Do it; `say` hears each step. Returns the plan that was carried out.

    Raises `RefusedError` when nothing was touched, `LbgenError` when the old state was brought back.
    """
    with locked(job.directory, say):
        _tidy(job.directory)
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
            say("an apply before this one was stopped: what ran before that one stays the backup")
        say(f"{job.target}: {_check_candidate(job)}")
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
        return plan


def _to_start(job: Job, plan: Plan) -> Job:
    """Return the job with either a start, where nothing runs, or none; raises `RefusedError`."""
    starts = job.start is not None and job.silent()
    if job.start and not starts and (held := job.strangers()):
        raise RefusedError(f"another program answers at {', '.join(held)}: nothing can be started there")
    wanted = job.start is not None or not plan.files[0].old
    if wanted and not starts and not job.reload and not job.socket and _runs_other(plan, job):
        raise RefusedError(f"another balancer that lbgen set up answers there: {_OTHER_RUNS}")
    return job._replace(reload=None) if starts else job._replace(start=None)


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) if isinstance(error, (LbgenError, OSError)) else f"internal error: {error!r}"


def _tidy(directory: Path) -> None:
    """Remove what an apply that was killed left lying; the lock is ours."""
    candidate = directory / CANDIDATE
    if candidate.is_symlink():
        candidate.unlink()
    shutil.rmtree(candidate, ignore_errors=True)
    for folder in (directory, directory / BACKUP):
        tidy(folder)


def _outdated(job: Job, plan: Plan, say: Callable[[str], None]) -> bool:
    """Tell whether the balancer has to load these files, though they lie there: it is seen to run others.

    Raises `RefusedError` when nobody said how.
    """
    if not _runs_other(plan, job):
        return False
    words = "the files are as they should be, but the balancer runs others"
    if job.reload is None:
        raise RefusedError(f"{words}: {_OTHER_RUNS}")
    say(f"{job.target}: {words}")
    return True


def _runs_other(plan: Plan, job: Job) -> bool:
    """Tell whether a balancer answers that lbgen set up, and with neither the old nor the new files."""
    texts = (plan.files[0].old, plan.files[0].new)
    known = frozenset[str]().union(*(names_for(job.directory, files_named(text)) for text in texts if text))
    return job.runs_other(known - {""})


def _change(plan: Plan, job: Job, backup: Backup, say: Callable[[str], None]) -> bool:
    """Replace the files and let them take effect; return whether they did."""
    backup.take(plan.files)
    write_files(job.directory, job.files, force=job.force)
    say(f"{job.target}: files replaced")
    return _take_effect(plan, job, say)


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
        raise RefusedError(f"{names}: not written by lbgen, so it is left alone (--force replaces it)")
    for loss in plan.losses:
        if loss.share > job.max_change:
            raise RefusedError(
                f"pool {loss.pool} would lose {loss.lost} of {loss.had} servers at once, more than "
                f"{job.max_change:.0%}: --max-change {loss.needed}% allows it"
            )


def _check_candidate(job: Job) -> str:
    """Let the real checker see the new files, beside the old ones and on the same file system."""
    candidate = job.directory / CANDIDATE
    try:
        candidate.mkdir(mode=0o700)
        write_files(candidate, job.files)
        _link_neighbours(job.directory, candidate)
        return job.check(candidate / job.files[0].path)
    finally:
        shutil.rmtree(candidate, ignore_errors=True)


def in_users_words(said: str, main: Path) -> str:
    """Return what a checker says of the candidate with the user's names for files.

    A rendered file is called by its name alone, since its lines are not those of the file that it replaces;
    any other, such as a certificate, by where it is looked for once the files are replaced.
    """
    candidate = main.parent
    for file in sorted(candidate.rglob("*"), key=lambda path: -len(str(path))):
        if file.is_file() and not file.is_symlink() and has_header(read_text(file, errors="replace")):
            said = said.replace(str(file), str(file.relative_to(candidate)))
    return said.replace(str(candidate), str(candidate.parent))


def _link_neighbours(directory: Path, candidate: Path) -> None:
    """Put what lies beside the files, such as certificates, beside the candidate, too."""
    for neighbour in directory.iterdir():
        if not neighbour.name.startswith(".lbgen") and not (candidate / neighbour.name).exists():
            (candidate / neighbour.name).symlink_to(neighbour.resolve())


def _take_effect(plan: Plan, job: Job, say: Callable[[str], None]) -> bool:
    if job.start:
        job.start.act()
        loaded(job.directory)
        say(f"{job.target}: started ({job.start.words})")
        _look(job, say)
    elif job.socket and not plan.reload and not _obstacle(plan, job, job.socket, say):
        change(job.socket, *_old_and_new(plan), say)
        changed(job.directory, *(files_named(text) for text in (plan.files[0].old, plan.files[0].new)))
        say(f"{job.target}: changed over the runtime socket, without a reload")
        for line in job.smoke():
            say(line)
    elif TARGETS[job.target].abilities.watches and not (job.reload and _restarts(plan)):
        return _watched(plan, job, say)
    elif job.reload:
        with through_reload(job.target, job.socket, plan.files[0].path, *_old_and_new(plan), say):
            job.reload.act()
            loaded(job.directory)
            say(f"{job.target}: reloaded ({job.reload.words})")
            _look(job, say)
        time.sleep(TARGETS[job.target].program.settle_s)
    else:
        say(f"{job.target}: not reloaded; name the command with --reload")
        return False
    return True


def _look(job: Job, say: Callable[[str], None]) -> None:
    """See that the balancer runs with the new files, and that a server answers."""
    for look in (job.verify, job.smoke):
        for line in look():
            say(line)


def _restarts(plan: Plan) -> bool:
    main = plan.files[0]
    return restarts(plan.target, main.old, main.new)


def _watched(plan: Plan, job: Job, say: Callable[[str], None]) -> bool:
    """See the new files taken by a program that watches them; return whether they take effect."""
    for one in plan.kept:
        say(f"{job.target}: {one.words}")
    if job.silent():
        say(f"{job.target}: nothing listens yet; say how to start it with --start")
        return False
    loaded(job.directory)
    _look(job, say)
    if _restarts(plan):
        name = job.files[0].path
        say(f"{job.target}: {name} is read at a start alone: restart it, or say how with --reload")
    return True


def _obstacle(plan: Plan, job: Job, socket: str, say: Callable[[str], None]) -> bool:
    """Tell whether a reload has to do what the socket cannot; raises `LbgenError` when there is none."""
    reason = _not_loaded(plan, job) or obstacle(socket, *_old_and_new(plan))
    if reason and job.reload is None:
        raise LbgenError(f"{reason}: only a reload can do it; say how with --reload")
    if reason:
        say(f"{job.target}: {reason}: a reload instead")
    return bool(reason)


def _not_loaded(plan: Plan, job: Job) -> str:
    """Return, in words, that the old files never took effect; empty when nothing of that kind is seen."""
    if job.runs_other(names_for(job.directory, files_named(plan.files[0].old))):
        return "the balancer does not run the files that lay here"
    return ""


def _old_and_new(plan: Plan) -> tuple[Inventory, Inventory]:
    read, main = TARGETS[plan.target].read, plan.files[0]
    return read(main.old), read(main.new)


def _roll_back(job: Job, backup: Backup, say: Callable[[str], None]) -> str:
    """Bring the old files back and reload; return how that went, in words."""
    try:
        ran = backup.restore()
    except OSError as error:
        return f"not all of the old files could be put back, the next apply will try: {error}"
    started = "; what the start command started may still run: stop it" if job.start else ""
    if not ran:
        backup.finish()
        return f"the new files are gone; there were none before{started}"
    words = f"the old files are in place again{started}"
    if job.reload:
        try:
            again = _reload_back(job, job.reload, say)
        except LbgenError as error:
            return f"{words}, but reloading them failed, too: {error}"
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
