"""What so many servers do, and how many a strategy takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.model import State
from lbgen.simulate.answers.study import is_closed
from lbgen.simulate.runs.result import combined
from lbgen.simulate.runs.statistics import Interval, interval
from lbgen.simulate.runs.tally import Edges
from lbgen.simulate.sizing.objective import answered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.model import Pool
    from lbgen.simulate.answers.study import Plan
    from lbgen.simulate.runs.result import Figures
    from lbgen.simulate.sizing.objective import Objective

LONGEST, EDGES = 4, Edges(0.4, 0.25)
"""A run takes four times as long as the longest answer; those that come in the middle of it count."""


class Step(NamedTuple):
    """What so many servers do, over all seeds."""

    servers: int
    load: float | None
    """None: clients that wait have no rate of their own."""
    value: Interval | None
    """Of the objective's figure; None: nothing was answered."""
    failed: int
    """Requests without an answer, in all runs together."""
    requests: int
    duration_s: float
    """Of all runs together."""
    steady: bool
    met: bool
    """The average over the seeds meets the objective, in a steady state."""
    certain: bool
    """The upper end of the 95 % interval meets it, too."""
    possible: bool
    """The lower end meets it."""


class Needed(NamedTuple):
    """What one strategy takes with servers of one kind."""

    kind: str
    """A profile's name."""
    strategy: str
    target: str | None
    present: bool
    """It is what the fleet file says."""
    servers: int | None
    """None: no number meets the objective."""
    low: int | None
    """The 95 % interval over the seeds: at least so many, at most `high`."""
    high: int | None
    steps: tuple[Step, ...]
    """All numbers that were run with all seeds, ascending."""
    dies: tuple[Step, ...] = ()
    """A run in which one of `servers`, and one of a server more, dies and stays dead."""

    def step(self, servers: int) -> Step | None:
        """Return what so many servers do, where it was run."""
        return next((one for one in self.steps if one.servers == servers), None)


def in_rotation(pool: Pool) -> int:
    """Return how many servers of a pool serve, backups aside."""
    return sum(one.state is State.UP and one.weight > 0 and not one.backup for one in pool.servers)


def scaled(pool: Pool, kind: str, count: int) -> Pool:
    """Return a pool with so many equal servers: like its first one in rotation, with its cap."""
    serving = [one for one in pool.servers if one.state is State.UP and not one.backup]
    like = (serving or list(pool.servers))[0]
    servers = (
        like._replace(name=f"{kind}-{number}", weight=1, state=State.UP, backup=False)
        for number in range(count)
    )
    return pool._replace(servers=tuple(servers))


def step_of(servers: int, plan: Plan, objective: Objective, runs: Sequence[Figures]) -> Step:
    """Return what a plan's runs tell of so many servers."""
    whole = combined(runs)
    values = [objective.value(run) for run in runs]
    known = [value for value in values if value is not None]
    found = interval(known) if known and len(known) == len(values) else None
    closed = is_closed(plan.question.workload)
    load = None if closed else plan.rate_per_s / plan.capacity_per_s
    fine = found is not None and whole.steady and answered(whole)
    mean, half = found or Interval(objective.limit, None)
    return Step(
        servers,
        load,
        found,
        whole.requests - whole.ok,
        whole.requests,
        whole.duration_s,
        whole.steady,
        fine and mean < objective.limit,
        fine and mean + (half or 0.0) < objective.limit,
        fine and mean - (half or 0.0) < objective.limit,
    )
