"""Sweeps: many runs, on all cores, with the same results whatever the number of cores."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, NamedTuple

from lbgen.simulate.clock import Simulation
from lbgen.simulate.result import Figures, figures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.simulate.setup import Setup
    from lbgen.simulate.workload import Workload

WORTH_A_PROCESS = 30_000
"""Requests in all from which on further processes pay for their start."""


class Task(NamedTuple):
    """One run."""

    setup: Setup
    workload: Workload
    rate_per_s: float
    requests: int
    seed: int


def run(task: Task) -> Figures:
    """Do one run."""
    workload = task.workload
    simulation = Simulation(task.setup, task.seed, workload.follow)
    requests = workload.requests(task.seed, task.rate_per_s, task.requests)
    collecting = gc.isenabled()
    gc.disable()  # a run makes no circles, and many objects that live long
    try:
        tally = simulation.run(requests)
    finally:
        if collecting:
            gc.enable()
    return figures(tally, simulation.servers)


def sweep(tasks: Sequence[Task], processes: int | None = None) -> Iterator[Figures]:
    """Yield the results of tasks in their order; `processes` None: as many as there are cores."""
    most = min(len(tasks), processes or os.cpu_count() or 1)
    if most > 1 and sum(task.requests for task in tasks) >= WORTH_A_PROCESS:
        done = 0
        try:
            with ProcessPoolExecutor(most) as pool:
                for result in pool.map(run, tasks):
                    yield result
                    done += 1
        except (OSError, BrokenProcessPool):  # no shared memory, or no further processes allowed here
            tasks = tasks[done:]
        else:
            return
    for task in tasks:
        yield run(task)
