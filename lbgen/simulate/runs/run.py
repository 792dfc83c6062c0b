"""Sweeps: many runs, on all cores, with the same results whatever the number of cores."""

from __future__ import annotations

import gc
import os
import signal
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children
from typing import TYPE_CHECKING, NamedTuple

from lbgen.simulate.runs.clock import Simulation
from lbgen.simulate.runs.result import Figures, figures
from lbgen.simulate.runs.tally import USUAL_EDGES, Edges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.simulate.load.workload import Workload
    from lbgen.simulate.servers.setup import Setup

WORTH_A_PROCESS = 30_000
"""Requests in all from which on further processes pay for their start."""


class Task(NamedTuple):
    """One run."""

    setup: Setup
    workload: Workload
    rate_per_s: float
    requests: int
    seed: int
    luck: int = 0
    """Which draws the balancers make; the requests are the seed's alone."""
    edges: Edges = USUAL_EDGES
    """Which requests' latencies do not count."""


def run(task: Task) -> Figures:
    """Do one run."""
    workload = task.workload
    draws = f"{task.seed} {task.luck}" if task.luck else task.seed
    simulation = Simulation(task.setup, draws, workload.follow, task.requests, task.edges)
    requests = workload.requests(task.seed, task.rate_per_s, task.requests)
    collecting = gc.isenabled()
    gc.disable()  # a run makes no circles, and many objects that live long
    try:
        tally = simulation.run(requests)
    finally:
        if collecting:
            gc.enable()
    found = figures(tally, simulation.servers)
    return found if workload.clients is None else found._replace(steady=True)  # nobody else comes


def cores() -> int:
    """Return on how many cores this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def sweep(tasks: Sequence[Task], processes: int | None = None) -> Iterator[Figures]:
    """Yield the results of tasks in their order; `processes` None: as many as there are cores."""
    most = min(len(tasks), processes or cores())
    if most > 1 and sum(task.requests for task in tasks) >= WORTH_A_PROCESS:
        done = 0
        try:
            for result in _in_processes(tasks, most):
                yield result
                done += 1
        except (OSError, BrokenProcessPool):  # no shared memory, or no further processes allowed here
            tasks = tasks[done:]
        else:
            return
    for task in tasks:
        yield run(task)


def _in_processes(tasks: Sequence[Task], most: int) -> Iterator[Figures]:
    """Yield the results in the order of the tasks; on SIGINT the processes end at once."""
    others = set(active_children())
    with ProcessPoolExecutor(most, initializer=_leave_interrupts_to_the_parent) as pool:
        try:
            # Not pool.map: it cancels what is left, and a pool whose processes end trips over that (3.11.7).
            waiting = deque(pool.submit(run, task) for task in tasks)
            while waiting:
                yield waiting.popleft().result()
        except BaseException:  # also GeneratorExit; else the pool would wait for the runs that go on
            for child in set(active_children()) - others:
                child.terminate()
            raise


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all of them
