"""One question to the simulator: strategies of a pool, under one load, over several seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.model import StrategyChoice
from lbgen.problems import LbgenError
from lbgen.simulate.capacity import capacity, server_capacity
from lbgen.simulate.pool import setup_of
from lbgen.simulate.result import Row, as_json, difference_json, differences
from lbgen.simulate.run import Task, sweep
from lbgen.simulate.workload import sizes
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lbgen.model import Fleet, Pool
    from lbgen.simulate.result import Figures
    from lbgen.simulate.setup import Agent, Incident, Setup
    from lbgen.simulate.workload import Workload

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
    """Of each run."""
    seeds: tuple[int, ...]
    rate_per_s: float | None = None
    load: float | None = None
    """Share of what the servers can carry; the rate follows from it."""
    profiles: tuple[str, ...] = ()
    slots: int | None = None
    incidents: tuple[Incident, ...] = ()
    agent: Callable[[tuple[str, ...], float], Agent] | None = None
    """Makes the agent for `kv_cache`; see `Setup`."""
    alone: bool = False
    """Only the strategies asked for, without the present one."""


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


def answer(question: Question, seen: Callable[[int, int], None] | None = None) -> Answer:
    """Do all runs; `seen` is told how many of how many are done. Raises `LbgenError` without any server."""
    names = [(name, target) for target in question.targets or (None,) for name in strategies_of(question)]
    setups = [_setup(question, name, target) for name, target in names]
    carried = capacity(setups[0], sizes(question.workload))
    if not carried:
        raise LbgenError(f"no server of the pool {question.pool.name} is in rotation")
    rate = _rate(question, carried)
    tasks = [
        Task(setup, question.workload, rate, question.requests, seed)
        for setup in setups
        for seed in question.seeds
    ]
    runs: list[Figures] = []
    for figures in sweep(tasks):
        runs.append(figures)
        if seen is not None:
            seen(len(runs), len(tasks))
    count = len(question.seeds)
    rows = tuple(
        _row(question, name, target, tuple(runs[index * count : (index + 1) * count]))
        for index, (name, target) in enumerate(names)
    )
    return Answer(question, rows, rate, carried, setups[0])


def answer_json(found: Answer, carried: Mapping[tuple[str, str | None], float]) -> dict[str, Any]:
    """Return the contract's shape, with load, capacity and differences beside it.

    `carried` is what `lbgen.simulate.objective.capacities` found, or nothing.
    """
    question = found.question
    return {
        "kind": "simulate",
        "pool": question.pool.name,
        "workload": {
            "name": question.workload.name,
            "rate_per_s": round(found.rate_per_s, 6),
            "requests": question.requests,
            "seeds": list(question.seeds),
        },
        "load": round(found.load, 6),
        "capacity_per_s": round(found.capacity_per_s, 6),
        "stable": found.load < 1,
        "results": [_row_json(found, row, carried) for row in found.rows],
    }


def _row_json(found: Answer, row: Row, carried: Mapping[tuple[str, str | None], float]) -> dict[str, Any]:
    base = base_of(found, row)
    compared = [] if base is row else [difference_json(one) for one in differences(row, base)]
    capacity_found = {}
    if (row.strategy, row.target) in carried:
        capacity_found["capacity_at_objective_per_s"] = round(carried[row.strategy, row.target], 6)
    return {**as_json(row), **capacity_found, "difference_to_present": compared}


def base_of(found: Answer, row: Row) -> Row:
    """Return the present strategy's row on the same target."""
    return next(one for one in found.rows if one.present and one.target == row.target)


def _setup(question: Question, name: str, target: str | None) -> Setup:
    setup = setup_of(question.fleet, question.pool, name, target, question.profiles)
    slots = question.slots
    servers = tuple(one._replace(profile=one.profile.with_slots(slots)) for one in setup.servers)
    return setup._replace(
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
    return Row(name, target, runs, dict(_refusals(question, name)), name == present.name)


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
    lacking = {"session": sample.session is None, "prefix": sample.prefix is None}
    return [name for name in names if lacking.get(name)]
