"""How replaced files take effect: by a start, over a runtime socket, by being watched, by a reload."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lbgen.deploy.planning.changes import restarts
from lbgen.deploy.runtime.in_step import changed, loaded, names_for
from lbgen.deploy.runtime.kept import through_reload
from lbgen.deploy.runtime.live import change, obstacle
from lbgen.problems import LbgenError
from lbgen.targets.common.answers import files_named
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbgen.deploy.job import Job
    from lbgen.deploy.planning.plan import Plan
    from lbgen.targets.inventory import Inventory


def take_effect(plan: Plan, job: Job, say: Callable[[str], None]) -> bool:
    """Let the new files take effect; return whether they did.

    Raises `LbgenError` when the balancer does not run with them.
    """
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
        return False
    loaded(job.directory)
    _look(job, say)
    if _restarts(plan):
        name = job.files[0].path
        say(
            f"{job.target}: {name} is only read at start-up: restart the program, or give a restart"
            " command with --reload"
        )
    return True


def _obstacle(plan: Plan, job: Job, socket: str, say: Callable[[str], None]) -> bool:
    """Tell whether a reload has to do what the socket cannot; raises `LbgenError` when there is none."""
    reason = _not_loaded(plan, job) or obstacle(socket, *_old_and_new(plan))
    if reason and job.reload is None:
        raise LbgenError(f"{reason}: a reload is needed; give the command with --reload")
    if reason:
        say(f"{job.target}: {reason}: reloading instead")
    return bool(reason)


def _not_loaded(plan: Plan, job: Job) -> str:
    """Return, in words, that the old files never took effect; empty when nothing of that kind is seen."""
    if job.runs_other(names_for(job.directory, files_named(plan.files[0].old))):
        return "the balancer does not run with the files in this folder"
    return ""


def _old_and_new(plan: Plan) -> tuple[Inventory, Inventory]:
    read, main = TARGETS[plan.target].read, plan.files[0]
    return read(main.old), read(main.new)


def runs_other(plan: Plan, job: Job) -> bool:
    """Tell whether a balancer answers that lbgen set up, and with neither the old nor the new files."""
    texts = (plan.files[0].old, plan.files[0].new)
    known = frozenset[str]().union(*(names_for(job.directory, files_named(text)) for text in texts if text))
    return job.runs_other(known - {""})
