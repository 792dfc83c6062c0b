"""One question to the simulator: strategies of a pool, under one load, over several seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.model import StrategyChoice
from lbgen.problems import LbgenError
from lbgen.simulate.load.workload import sizes
from lbgen.simulate.runs.peers import PEERS
from lbgen.simulate.runs.result import Row
from lbgen.simulate.runs.run import Task, sweep
from lbgen.simulate.runs.tally import USUAL_EDGES, Edges
from lbgen.simulate.servers.capacity import LONGEST, capacity, server_capacity, usual_requests
from lbgen.simulate.servers.pool import setup_of
from lbgen.strategies.registry import DEFAULT_STRATEGY
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lbgen.model import Fleet, Pool
    from lbgen.simulate.load.workload import Workload
    from lbgen.simulate.runs.result import Figures
    from lbgen.simulate.servers.setup import Agent, Incident, Setup
    from lbgen.simulate.servers.step_times.calibration import Calibration

USUAL = ("round_robin", "least_conn", "random_two")
"""What the present strategy is compared with when nothing else is asked for."""


class Question(NamedTuple):
    """What is asked."""

    fleet: Fleet
    pool: Pool
    strategies: tuple[str, ...]
    """Canonical names; empty: the present one and the usual ones."""
    targets: tuple[str, ...]
    """As which targets choose; empty: as the strategies are meant."""
    workload: Workload
    requests: int
    """Of each run; 0: as many as a steady state needs."""
    seeds: tuple[int, ...]
    rate_per_s: float | None = None
    load: float | None = None
    """Share of what the servers can carry; the rate follows from it."""
    profiles: tuple[str, ...] = ()
    slots: int | None = None
    incidents: tuple[Incident, ...] = ()
    agent: Callable[[tuple[str, ...], float, int], Agent] | None = None
    """Makes the agent for `kv_cache`; see `Setup`."""
    calibration: Calibration | None = None
    """What was measured, for all servers."""
    alone: bool = False
    """Only the strategies asked for, without the present one."""
    peers: tuple[str, ...] = ()
    """Other routers' ways to choose, as rows beside; see `lbgen.simulate.runs.peers`."""
    longest: int = LONGEST
    """How many times as long as the longest answer a run takes when nobody says how many requests."""
    edges: Edges = USUAL_EDGES
    """Which requests' latencies do not count."""


class Answer(NamedTuple):
    """What came out."""

    question: Question
    rows: tuple[Row, ...]
    rate_per_s: float
    capacity_per_s: float
    setup: Setup
    """Of the first row; servers and slots are alike in all."""

    @property
    def load(self) -> float:
        """Requests that come, as a share of those that the servers can carry."""
        return self.rate_per_s / self.capacity_per_s

    @property
    def stable(self) -> bool:
        """False when more comes than the servers can carry."""
        return self.load < 1 or is_closed(self.question.workload)

    @property
    def overloaded(self) -> list[str]:
        """Names of servers to which a share by weight alone gives more than they can carry."""
        serving = [one for one in self.setup.servers if one.available and not one.backup]
        weights = sum(one.weight for one in serving) or 1
        load = sizes(self.question.workload)
        return [
            one.name
            for one in serving
            if one.weight / weights * self.rate_per_s > server_capacity(one.profile, load)
        ]


def strategies_of(question: Question) -> list[str]:
    """Return what is simulated: what was asked for, and in any case what the fleet has at present."""
    present = question.pool.strategy.name
    names = question.strategies or (present, *USUAL)
    return list(dict.fromkeys(names if question.alone else (*names, present)))


class Plan(NamedTuple):
    """The runs that answer a question."""

    question: Question
    names: list[tuple[str, str | None]]
    """Strategy and target of each row."""
    order: list[int]
    """The rows as they are run: the present strategy, which all are compared with, first."""
    setups: list[Setup]
    capacity_per_s: float
    rate_per_s: float

    @classmethod
    def of(cls, question: Question) -> Plan:
        """Return the plan; raises `LbgenError` without any server in rotation."""
        names: list[tuple[str, str | None]] = [
            (name, target) for target in question.targets or (None,) for name in strategies_of(question)
        ]
        names += [(peer, None) for peer in question.peers]
        setups = [_setup(question, name, target) for name, target in names]
        carried = capacity(setups[0], sizes(question.workload))
        if not carried:
            raise LbgenError(f"no server of the pool {question.pool.name} is in rotation")
        present = question.pool.strategy.name
        order = sorted(range(len(names)), key=lambda index: names[index][0] != present)
        rate = _rate(question, carried)
        if not question.requests:
            question = question._replace(
                requests=usual_requests(setups[0], question.workload, rate, question.longest)
            )
        return cls(question, names, order, setups, carried, rate)

    def tasks(self) -> list[Task]:
        """Return the runs, seed after seed, so that those finished by any time can be compared."""
        question = self.question
        return [
            Task(
                self.setups[index], question.workload, self.rate_per_s, question.requests, seed,
                edges=question.edges,
            )
            for seed in question.seeds
            for index in self.order
        ]  # fmt: skip

    def answer(self, runs: Sequence[Figures]) -> Answer | None:
        """Return what the first so many finished tasks tell; None when they tell nothing.

        That is all rows over the seeds that are complete, else the rows that are there of the first one.
        """
        width = len(self.order)
        seeds, rows = (len(runs) // width, width) if len(runs) >= width else (1, len(runs))
        if not rows:
            return None
        question = self.question._replace(seeds=self.question.seeds[:seeds])
        found = {
            index: _row(question, *self.names[index], tuple(runs[place + width * n] for n in range(seeds)))
            for place, index in enumerate(self.order[:rows])
        }
        answered = tuple(found[index] for index in sorted(found))
        rate = _measured(found[self.order[0]]) if is_closed(question.workload) else self.rate_per_s
        return Answer(question, answered, rate, self.capacity_per_s, self.setups[0])


def is_closed(workload: Workload) -> bool:
    """Tell whether clients wait for their answers, so that the servers decide the rate."""
    return workload.clients is not None


def _measured(row: Row) -> float:
    """Return the requests a second that came."""
    return sum(run.requests for run in row.runs) / (sum(run.duration_s for run in row.runs) or 1.0)


class Study(NamedTuple):
    """Answers to several questions, and whether there was time for all of them."""

    answers: tuple[Answer, ...]
    finished: int
    """Runs that are done."""
    planned: int

    @property
    def complete(self) -> bool:
        return self.finished == self.planned


def study(
    questions: Sequence[Question],
    sweep: Callable[[Sequence[Task]], Iterable[Figures]] = sweep,
    seen: Callable[[int, int], None] | None = None,
) -> Study:
    """Do all runs of all questions at once; what is finished when SIGINT comes is kept.

    `seen` is told how many of how many are done. Raises `LbgenError` without any server in rotation.
    """
    plans = [Plan.of(question) for question in questions]
    counts = [len(plan.order) * len(plan.question.seeds) for plan in plans]
    runs: list[Figures] = []
    try:
        for figures in sweep([task for plan in plans for task in plan.tasks()]):
            runs.append(figures)
            if seen is not None:
                seen(len(runs), sum(counts))
    except KeyboardInterrupt:
        pass  # `finished` tells
    found, place = [], 0
    for plan, count in zip(plans, counts, strict=True):
        found.append(plan.answer(runs[place : place + count]))
        place += count
    return Study(tuple(one for one in found if one is not None), len(runs), sum(counts))


def answer(question: Question) -> Answer:
    """Answer one question; raises `LbgenError` without any server, `KeyboardInterrupt` unless complete."""
    done = study([question])
    if not done.complete:
        raise KeyboardInterrupt
    return done.answers[0]


def base_of(found: Answer, row: Row) -> Row:
    """Return the present strategy's row on the same target; for a peer, on the first one."""
    present = [one for one in found.rows if one.present]
    return next((one for one in present if one.target == row.target), present[0])


def _setup(question: Question, name: str, target: str | None) -> Setup:
    peer = name in PEERS
    setup = setup_of(
        question.fleet, question.pool, DEFAULT_STRATEGY if peer else name, target, question.profiles
    )
    slots = question.slots
    measured = question.calibration
    servers = tuple(
        one._replace(profile=(measured.applied(one.profile) if measured else one.profile).with_slots(slots))
        for one in setup.servers
    )
    if peer:  # such routers have neither caps nor a queue
        servers = tuple(one._replace(cap=None) for one in servers)
    return setup._replace(
        strategy=name,
        servers=servers,
        chunk_tokens=question.workload.chunk_tokens,
        incidents=question.incidents,
        agent=question.agent,
    )


def _rate(question: Question, carried: float) -> float:
    if question.rate_per_s is not None:
        return question.rate_per_s
    if question.load is not None:
        return question.load * carried
    return question.workload.own_rate or DEFAULT_LOAD * carried


DEFAULT_LOAD = 0.8
"""Busy, and a load that fleets should be able to bear."""


def _row(question: Question, name: str, target: str | None, runs: tuple[Figures, ...]) -> Row:
    present = question.pool.strategy
    refused = {} if name in PEERS else dict(_refusals(question, name))
    return Row(name, target, runs, refused, name == present.name)


def _refusals(question: Question, name: str) -> Iterator[tuple[str, str]]:
    present = question.pool.strategy
    pool = question.pool
    if name != present.name:
        pool = pool._replace(strategy=StrategyChoice(name, _defaults(question, name)))
    for settings in question.fleet.targets:
        refused = TARGETS[settings.name].strategies[name](pool, settings)
        if refused is not None:
            yield settings.name, refused.reason


def _defaults(question: Question, name: str) -> dict[str, object]:
    return dict(setup_of(question.fleet, question.pool, name, None, question.profiles).parameters)


def missing_facts(workload: Workload, names: Sequence[str]) -> list[str]:
    """Return the strategies whose key this workload's requests lack, so that they spread in turn."""
    sample = next(iter(workload.requests(0, 1.0, 1)))
    lacking = {
        "session": sample.session is None,
        "prefix": sample.prefix is None and sample.conversation is None,
    }
    return [name for name in names if lacking.get(name)]
