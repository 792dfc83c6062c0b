"""The search for the least number of servers of one kind under one strategy."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

from lbgen.problems import LbgenError
from lbgen.simulate.answers.study import Plan, is_closed
from lbgen.simulate.load.workload import sizes
from lbgen.simulate.runs.run import sweep
from lbgen.simulate.servers.capacity import server_capacity
from lbgen.simulate.servers.setup import Incident
from lbgen.simulate.sizing.narrow import least
from lbgen.simulate.sizing.needed import EDGES, LONGEST, Needed, in_rotation, scaled, step_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.simulate.answers.study import Question
    from lbgen.simulate.runs.result import Figures
    from lbgen.simulate.runs.run import Task
    from lbgen.simulate.sizing.needed import Step
    from lbgen.simulate.sizing.objective import Objective

MOST_SERVERS = 4_000
"""Servers of a pool that are tried at most."""
IDLE = 0.05
"""At such a load servers are as good as idle: who does not meet the objective there never does."""
FIRST_GUESS = 0.85
"""The load at which the search begins."""
PILOTS = 2
"""Seeds with which is searched, and that show what overload and death do; all are run near the answer."""
SHORT = 2_000
"""Requests of a run that tells whether idle servers meet the objective."""
GOOD_TO, ENDS_TO = 0.02, 0.05
"""The number is exact up to 50 servers and good to 2 % beyond, the ends of its interval to 5 %."""
DIES_AT = 0.4
"""When a server dies, as a share of the time in which requests come."""


class Search:
    """The search for one kind, strategy and target; what was run once is kept."""

    def __init__(
        self, question: Question, objective: Objective, kind: str, seen: Callable[[], None] | None
    ) -> None:
        """Prepare it; the question is about one strategy, and one target at most."""
        self._question = question._replace(
            alone=True, peers=(), profiles=(kind,), longest=LONGEST, edges=EDGES
        )
        self._objective = objective
        self._kind = kind
        self._seen = seen
        self._runs: dict[tuple[int, int], Figures] = {}
        self._plans: dict[int, Plan] = {}
        self._all = len(question.seeds)
        self._each, self._shares = self._carried()

    def needed(self, guess: int | None, around: tuple[int, int]) -> Needed:
        """Return the answer; `guess`: what another strategy takes."""
        low, high = self._bounds()
        begin = guess or round((self._rate / self._each) / FIRST_GUESS if self._each else self._now)
        begin, pilots = min(max(begin, low), high), min(PILOTS, self._all)
        if not self._at(begin, pilots).met and not self._idle_meets(high):
            return self._made(None, None, None)
        count = least(self._met(pilots), begin, low, high, GOOD_TO)
        if count is not None and self._all > PILOTS:
            count = least(self._met(self._all), count, low, high, GOOD_TO)
        if count is None:
            return self._made(None, None, None)
        more_at_most = min(MOST_SERVERS, 2 * count + 2)
        most = least(lambda servers: self._at(servers).certain, count, count, more_at_most, ENDS_TO)
        fewest = least(lambda servers: self._at(servers).possible, count, low, count, ENDS_TO)
        fewer, more = around if self._present else (1, 0)
        apart = max(1, count // 12)
        for number in range(-fewer, more + 1):
            servers = count + (number if abs(number) <= 1 else number * apart)
            if servers >= low:
                self._at(servers)
            elif servers >= 1 and self._present:  # more comes than they carry: how much matters little
                self._at(servers, pilots)
        return self._made(count, fewest, most, self._one_dies(count) if self._present else ())

    @property
    def _present(self) -> bool:
        return self._question.strategies == (self._question.pool.strategy.name,)

    def _idle_meets(self, servers: int) -> bool:
        """Tell whether the objective is met where servers have next to nothing to do."""
        question = self._plan(servers).question._replace(requests=SHORT, seeds=self._question.seeds[:1])
        return self._objective.met(next(iter(sweep(Plan.of(question).tasks()))))

    @property
    def _now(self) -> int:
        return max(1, in_rotation(self._question.pool))

    @property
    def _rate(self) -> float:
        return self._question.rate_per_s or self._question.workload.own_rate or 0.0

    def _carried(self) -> tuple[float, bool]:
        """Return the requests a second that a server carries, and whether prefix hits may make it more."""
        if is_closed(self._question.workload):
            return 0.0, True
        (server, *_) = self._plan(1).setups[0].servers
        cap = server.cap and server.cap * self._plan(1).setups[0].balancers
        each = server_capacity(server.profile, sizes(self._question.workload), cap)
        sample = next(iter(self._question.workload.requests(0, 1.0, 1)))
        return each, server.profile.prefix_cache and bool(sample.chunks)

    def _bounds(self) -> tuple[int, int]:
        if not self._each:
            return 1, MOST_SERVERS
        low = 1 if self._shares else floor(self._rate / self._each) + 1
        high = max(low + 3, round(self._rate / self._each / IDLE))
        if low > MOST_SERVERS:
            raise LbgenError(
                f"{self._rate:g} requests/s take more than {MOST_SERVERS:,} servers of {self._kind}"
            )
        return low, min(MOST_SERVERS, high)

    def _met(self, seeds: int) -> Callable[[int], bool]:
        return lambda servers: self._at(servers, seeds).met

    def _at(self, servers: int, seeds: int | None = None) -> Step:
        """Return what so many servers do with the first so many seeds."""
        plan = self._plan(servers)
        wanted = plan.question.seeds[: seeds or self._all]
        lacking = [seed for seed in wanted if (servers, seed) not in self._runs]
        tasks = [task for task in plan.tasks() if task.seed in lacking]
        for task, figures in zip(tasks, sweep(tasks), strict=True):
            self._runs[servers, task.seed] = figures
        if tasks and self._seen is not None:
            self._seen()
        return step_of(servers, plan, self._objective, [self._runs[servers, seed] for seed in wanted])

    def _plan(self, servers: int) -> Plan:
        if servers not in self._plans:
            self._plans[servers] = Plan.of(
                self._question._replace(pool=scaled(self._question.pool, self._kind, servers))
            )
        return self._plans[servers]

    def _one_dies(self, count: int) -> tuple[Step, ...]:
        return tuple(self._dying(servers) for servers in (count, count + 1) if servers > 1)

    def _dying(self, servers: int) -> Step:
        plan = self._plan(servers)
        (setup,) = plan.setups
        rate = plan.rate_per_s
        if is_closed(self._question.workload):
            whole = self._at(servers)
            rate = whole.requests / whole.duration_s
        at_s = DIES_AT * plan.question.requests / rate
        dead = setup._replace(incidents=(*setup.incidents, Incident(at_s, setup.servers[0].name, "fail")))
        seeds = plan.question.seeds[:PILOTS]
        tasks: list[Task] = [task._replace(setup=dead) for task in plan.tasks() if task.seed in seeds]
        found = step_of(servers, plan, self._objective, list(sweep(tasks)))
        if self._seen is not None:
            self._seen()
        return found

    def _made(
        self, count: int | None, low: int | None, high: int | None, dies: tuple[Step, ...] = ()
    ) -> Needed:
        question = self._question
        (strategy,) = question.strategies
        return Needed(
            self._kind,
            strategy,
            question.targets[0] if question.targets else None,
            self._present,
            count,
            low,
            high,
            tuple(self._whole()),
            dies,
        )

    def _whole(self) -> Iterator[Step]:
        low, _ = self._bounds()
        for servers in sorted({servers for servers, _ in self._runs}):
            done = sum((servers, seed) in self._runs for seed in self._question.seeds)
            if done == self._all or servers < low:
                yield self._at(servers, done)
