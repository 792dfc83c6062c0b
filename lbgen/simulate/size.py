"""How many servers of a kind an objective takes: the least number, its neighbours, and one that dies."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING, NamedTuple

from lbgen.model import State
from lbgen.problems import LbgenError
from lbgen.simulate.capacity import server_capacity
from lbgen.simulate.narrow import least
from lbgen.simulate.objective import answered
from lbgen.simulate.pool import profile_of
from lbgen.simulate.result import combined
from lbgen.simulate.run import sweep
from lbgen.simulate.setup import Incident
from lbgen.simulate.statistics import Interval, interval
from lbgen.simulate.study import Plan, is_closed, strategies_of
from lbgen.simulate.workload import sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lbgen.model import Pool
    from lbgen.simulate.objective import Objective
    from lbgen.simulate.result import Figures
    from lbgen.simulate.run import Task
    from lbgen.simulate.study import Question

MOST_SERVERS = 4_000
"""Servers of a pool that are tried at most."""
IDLE = 0.05
"""At such a load servers are as good as idle: who does not meet the objective there never does."""
FIRST_GUESS = 0.85
"""The load at which the search begins."""
PILOTS = 2
"""Seeds with which is searched; all of them are run near the answer alone."""
LONGEST, WARM_UP = 3, 1 / 3
"""A run takes three times as long as the longest answer, and the first third does not count."""
SHORT = 2_000
"""Requests of a run that tells whether idle servers meet the objective."""
GOOD_TO, ENDS_TO = 0.02, 0.05
"""The number is exact up to 50 servers and good to 2 % beyond, the ends of its interval to 5 %."""
DIES_AT = 0.4
"""When a server dies, as a share of the time in which requests come."""


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


class Sized(NamedTuple):
    """The answer for one pool."""

    question: Question
    objective: Objective
    needed: tuple[Needed, ...]
    now: int
    """Servers in rotation in the fleet file."""
    requests: int
    """Of a run with the servers that are needed."""
    present: Step | None = None
    """The pool as it is, where its servers are of several kinds."""

    @property
    def lacking(self) -> bool:
        """True when the pool, with its strategy, has too few servers, of whatever kind was sized with."""
        if self.present is not None:
            return not self.present.met
        own = [one for one in self.needed if one.present]
        return all(one.servers is None or one.servers > self.now for one in own)


def in_rotation(pool: Pool) -> int:
    """Return how many servers of a pool serve, backups aside."""
    return sum(one.state is State.UP and one.weight > 0 and not one.backup for one in pool.servers)


def kinds_of(pool: Pool, profiles: Sequence[str]) -> list[str]:
    """Return the kinds whose number is asked for: profiles for all servers, else those that the pool has."""
    named = [text for text in profiles if "=" not in text]
    for text in named:
        profile_of("", (text,))  # raises for a name that does not exist
    if len(named) == len(profiles) and named:
        return list(dict.fromkeys(named))
    return list(dict.fromkeys(profile_of(server.name, profiles).name for server in pool.servers))


def sized(
    question: Question,
    objective: Objective,
    kinds: Sequence[str],
    around: tuple[int, int] = (1, 1),
    seen: Callable[[], None] | None = None,
) -> Sized:
    """Answer for one pool; `around`: how many fewer and more servers are run besides, for the curve.

    `seen` is called after each number of servers that was tried. Raises `LbgenError` without any server.
    """
    if not question.pool.servers:
        raise LbgenError(f"no server of the pool {question.pool.name} is known")
    found: list[Needed] = []
    for kind in kinds:
        for target in question.targets or (None,):
            for name in strategies_of(question):
                own = question._replace(strategies=(name,), targets=(target,) if target else ())
                search = _Search(own, objective, kind, seen)
                guesses = [one.servers for one in found if one.kind == kind and one.servers is not None]
                found.append(search.needed(guesses[0] if guesses else None, around))
    mixed = len({profile_of(one.name, question.profiles).name for one in question.pool.servers}) > 1
    whole = _as_it_is(question, objective) if mixed else None
    first = next((one for one in found if one.servers is not None), found[0])
    step = first.step(first.servers or 0)
    requests = step.requests // len(question.seeds) if step else question.requests
    return Sized(question, objective, tuple(found), in_rotation(question.pool), requests, whole)


def _as_it_is(question: Question, objective: Objective) -> Step:
    alone = question._replace(
        strategies=(question.pool.strategy.name,), targets=question.targets[:1], alone=True,
        longest=LONGEST, warm_up=WARM_UP,
    )  # fmt: skip
    plan = Plan.of(alone)
    return _step(in_rotation(question.pool), plan, objective, list(sweep(plan.tasks())))


class _Search:
    """The search for one kind, strategy and target; what was run once is kept."""

    def __init__(
        self, question: Question, objective: Objective, kind: str, seen: Callable[[], None] | None
    ) -> None:
        """Prepare it; the question is about one strategy, and one target at most."""
        self._question = question._replace(
            alone=True, peers=(), profiles=(kind,), longest=LONGEST, warm_up=WARM_UP
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
            if servers >= 1:
                self._at(servers)
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
        return _step(servers, plan, self._objective, [self._runs[servers, seed] for seed in wanted])

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
        tasks: list[Task] = [task._replace(setup=dead) for task in plan.tasks()]
        found = _step(servers, plan, self._objective, list(sweep(tasks)))
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
        for servers in sorted({servers for servers, _ in self._runs}):
            if all((servers, seed) in self._runs for seed in self._question.seeds):
                yield self._at(servers)


def scaled(pool: Pool, kind: str, count: int) -> Pool:
    """Return a pool with so many equal servers: like its first one in rotation, with its cap."""
    serving = [one for one in pool.servers if one.state is State.UP and not one.backup]
    like = (serving or list(pool.servers))[0]
    servers = (
        like._replace(name=f"{kind}-{number}", weight=1, state=State.UP, backup=False)
        for number in range(count)
    )
    return pool._replace(servers=tuple(servers))


def _step(servers: int, plan: Plan, objective: Objective, runs: Sequence[Figures]) -> Step:
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
