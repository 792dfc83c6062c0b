"""A whole trial: predict, choose the speed, bring everything up, measure each strategy on each target."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from lbgen.lab.trial import agreement, mapping, measure, speed
from lbgen.problems import LbgenError
from lbgen.render import render
from lbgen.secret_values import StandInSecrets
from lbgen.simulate.pool import setup_of
from lbgen.simulate.run import Task, cores
from lbgen.simulate.study import Plan as Runs
from lbgen.simulate.study import answer, strategies_of
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from lbgen.lab import load
    from lbgen.lab.trial.agreement import Gap
    from lbgen.lab.trial.mapping import Way
    from lbgen.lab.trial.measure import Lateness
    from lbgen.model import Fleet, Pool
    from lbgen.render import RenderedFile
    from lbgen.simulate.result import Row
    from lbgen.simulate.study import Answer, Question
    from lbgen.units import Address

CHUNK_S = 0.25
"""Tokens after the first travel together for so long, on the wall clock: their times are not measured."""

AGAIN = 2
"""How often a run is repeated that came out late."""


class Runtime(Protocol):
    """A place where mock GPU servers and balancers run."""

    name: str

    def mocks(self, settings: Sequence[Mapping[str, object]]) -> dict[str, Address]:
        """Start mock GPU servers with these settings; return their addresses by name."""

    def balancer(
        self, target: str, fleet: Fleet, pool: Pool, way: Way, servers: Mapping[str, Address]
    ) -> AbstractContextManager[tuple[str, tuple[RenderedFile, ...]]]:
        """Run a balancer; give its URL and its files."""


class Measured(NamedTuple):
    """One strategy on one target."""

    predicted: Row
    measured: Row
    late: Lateness
    gaps: tuple[Gap, ...]
    """Each figure that has to agree."""


class Trial(NamedTuple):
    """What came out."""

    found: Answer
    """The prediction of the first target."""
    rows: tuple[Measured, ...]
    speed: float
    runtime: str


class Plan(NamedTuple):
    """What is tried, and how fast."""

    question: Question
    predictions: tuple[Answer, ...]
    """By target, in the order of the question's."""
    speed: float
    way: Way


def plan(question: Question, say: Callable[[str], None]) -> Plan:
    """Return what can be tried of a question with targets; `say` hears what cannot. Raises `LbgenError`."""
    way = mapping.way_to(question.fleet, question.pool)
    sample = next(iter(question.workload.requests(0, 1.0, 1)))
    sample.finished = 0.0  # as if it were answered: only then another one follows
    if question.workload.follow(sample, 0.0) is not None:
        raise LbgenError(
            f"the requests of {question.workload.name} follow from answers, and a trial sends them when "
            "they are due: use shared, or simulate"
        )
    usable = [(target, _usable(question, target, say)) for target in question.targets]
    usable = [(target, names) for target, names in usable if names]
    if not usable:
        raise LbgenError("nothing is left to try")
    carried, chosen, predictions = speed.carried_per_s(cores()), 0.0, []
    for _ in range(2):  # the queue's real seconds depend on the speed, and that on the run's length
        asked = [_faster(question, chosen or 1.0, target, names) for target, names in usable]
        predictions = [answer(one) for one in asked]
        longest = max(row.runs[0].duration_s for one in predictions for row in one.rows)
        step = min(server.profile.step for server in predictions[0].setup.servers)
        chosen = speed.choose(longest, predictions[0].rate_per_s, step, carried)
    return Plan(question, tuple(predictions), chosen, way)


def conduct(made: Plan, runtime: Runtime, detail: Callable[[str], None]) -> Iterator[Measured]:
    """Yield each strategy on each target as it is measured. Raises `RigError`."""
    question, way = made.question, made.way
    profiles = {one.name: one.profile for one in made.predictions[0].setup.servers}
    servers = runtime.mocks(
        [
            {"name": name, "profile": profile.name, "slots": profile.slots, "speed": made.speed,
             "chunk_s": CHUNK_S, "engine": "vllm"}
            for name, profile in profiles.items()
        ]
    )  # fmt: skip
    seed = question.seeds[0]
    for found in made.predictions:
        target = found.question.targets[0]
        for row in found.rows:
            requests = question.workload.requests(seed, found.rate_per_s, question.requests)
            sent = measure.planned(requests, made.speed, way, {**way.headers, **_key(question.fleet, way)})
            parameters = setup_of(question.fleet, question.pool, row.strategy, None, ()).parameters
            fleet = mapping.with_strategy(question.fleet, question.pool, row.strategy, parameters)
            pool = fleet.pool(question.pool.name)
            with runtime.balancer(target, fleet, pool, way, servers) as (url, files):
                detail(f"{target}, {row.strategy}: {_differences(fleet, target, files)}")
                taken = _measured(url, sent, servers, made.speed, detail)
            gaps = _compared(found, row, taken, made.speed)
            yield Measured(row, row._replace(runs=(taken.figures,)), taken.late, gaps)


def _measured(
    url: str,
    sent: Sequence[load.Planned],
    servers: Mapping[str, Address],
    factor: float,
    detail: Callable[[str], None],
) -> measure.Taken:
    """Measure; a run that something else on this machine disturbed is repeated, twice at most."""
    for _ in range(AGAIN):
        try:
            return measure.measure(url, sent, servers, factor)
        except measure.TooLateError as error:
            detail(f"once more, because {error}")
    return measure.measure(url, sent, servers, factor)


def _compared(found: Answer, row: Row, taken: measure.Taken, factor: float) -> tuple[Gap, ...]:
    """Return the gaps; what chance does is only simulated where something does not agree."""
    planned = Runs.of(found.question)
    index = planned.names.index((row.strategy, row.target))
    profiles = [server.profile for server in planned.setups[index].servers]
    slack_s = agreement.slack_s(max(one.step + one.per_request * one.slots for one in profiles), factor)
    gaps = agreement.gaps(row.runs[0], taken.figures, slack_s)
    if all(gap.agrees for gap in gaps):
        return tuple(gaps)
    task = Task(
        planned.setups[index], found.question.workload, found.rate_per_s, found.question.requests,
        found.question.seeds[0],
    )  # fmt: skip
    return tuple(agreement.gaps(row.runs[0], taken.figures, slack_s, agreement.luck(task, factor)))


def _usable(question: Question, target: str, say: Callable[[str], None]) -> tuple[str, ...]:
    settings = question.fleet.target(target)
    names = []
    for name in strategies_of(question):
        parameters = setup_of(question.fleet, question.pool, name, None, ()).parameters
        fleet = mapping.with_strategy(question.fleet, question.pool, name, parameters)
        refused = TARGETS[target].strategies[name](fleet.pool(question.pool.name), settings)
        if refused is None:
            names.append(name)
        else:
            say(f"not tried: {name} on {target}, which {refused.reason}")
    return tuple(names)


def _faster(question: Question, factor: float, target: str, names: tuple[str, ...]) -> Question:
    """Return the question for one target, its queue's patience in virtual seconds."""
    pool = question.pool
    pool = pool._replace(queue=pool.queue._replace(timeout=round(pool.queue.timeout * factor)))
    return question._replace(pool=pool, targets=(target,), strategies=names, alone=True)


def _key(fleet: Fleet, way: Way) -> dict[str, str]:
    """Return the header with a client's key, where one is asked for."""
    auth = way.listener.auth
    if not auth.clients:
        return {}
    client = next(one for one in fleet.clients if one.name in auth.clients)
    value = StandInSecrets().resolve(client.keys[0])
    bearer = auth.header.lower() == "authorization"
    return {auth.header: f"Bearer {value}" if bearer else value}


def _differences(fleet: Fleet, target: str, files: Iterable[RenderedFile]) -> str:
    """Return how the tried files differ from those that `render` gives, secrets left out."""
    from difflib import unified_diff  # noqa: PLC0415 - only somebody who looks closer wants it

    try:
        plain = {file.path: file.text for file in render(fleet, target, secrets=StandInSecrets())}
    except LbgenError as error:
        return f"what render gives cannot be made here: {error}"
    lines = [
        line
        for file in files
        if not file.secret
        for line in unified_diff(
            plain.get(file.path, "").splitlines(), file.text.splitlines(),
            f"render/{file.path}", f"trial/{file.path}", lineterm="", n=0,
        )
    ]  # fmt: skip
    return "\n".join(["differs from what render gives in:", *lines]) if lines else "as render gives it"
