"""A whole trial: bring everything up, measure each strategy on each target, and a file beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from lbgen.lab.trial.asked.expectations import BESIDE
from lbgen.lab.trial.asked.planning import faster
from lbgen.lab.trial.load import measure
from lbgen.lab.trial.load.sending import Sender, admitted_clients, client_keys
from lbgen.lab.trial.results import agreement, failures
from lbgen.lab.trial.stage import certificates, mapping
from lbgen.lab.trial.stage.ready import Asked
from lbgen.lab.trial.stage.watching import engine_of
from lbgen.render import render
from lbgen.secret_values import StandInSecrets
from lbgen.simulate.answers.study import Plan as Runs
from lbgen.simulate.answers.study import answer
from lbgen.simulate.runs.result import Row
from lbgen.simulate.runs.run import Task
from lbgen.simulate.servers.pool import setup_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from lbgen.lab.trial.asked.planning import Plan
    from lbgen.lab.trial.beside import Beside
    from lbgen.lab.trial.load.measure import Lateness
    from lbgen.lab.trial.results.agreement import Gap
    from lbgen.lab.trial.results.failures import Failure
    from lbgen.lab.trial.stage.mapping import Standing, Way
    from lbgen.lab.trial.stage.ready import Serving
    from lbgen.model import Fleet, Pool
    from lbgen.simulate.answers.study import Answer

CHUNK_S = 0.25
"""Tokens after the first travel together for so long, on the wall clock: their times are not measured."""

AGAIN = 2
"""How often a run is repeated that came out late."""
STAGES = 2
"""A request waits for the load driver and for the mock GPU server."""


class Runtime(Protocol):
    """A place where mock GPU servers and balancers run."""

    name: str

    def mocks(self, settings: Sequence[Mapping[str, object]], pool: Pool) -> dict[str, Standing]:
        """Start mock GPU servers for a pool with these settings; return where they are by name."""

    def balancer(self, asked: Asked, way: Way) -> AbstractContextManager[Serving]:
        """Run a balancer."""

    def beside(self, asked: Asked, found: Beside) -> AbstractContextManager[Serving]:
        """Run a file that lbgen did not write."""


class Measured(NamedTuple):
    """One strategy on one target, or a file that lbgen did not write."""

    predicted: Row | None
    """None for a file: nobody knows what it does before it is tried."""
    measured: Row
    late: Lateness
    gaps: tuple[Gap, ...]
    """Each figure that has to agree."""
    speed: float = 1.0
    """Virtual seconds in a second of the clock."""
    failures: tuple[Failure, ...] = ()
    why: tuple[str, ...] = ()
    """The same in words, with the keys that decide them."""


class Trial(NamedTuple):
    """What came out."""

    found: Answer
    """The prediction of the first target."""
    rows: tuple[Measured, ...]
    speed: float
    runtime: str


def conduct(
    made: Plan,
    runtime: Runtime,
    detail: Callable[[str], None],
    *,
    fresh: bool = False,
    answered: Callable[[], None] | None = None,
) -> Iterator[Measured]:
    """Yield each strategy on each target as it is measured. Raises `RigError`.

    `fresh`: each request has a connection of its own. `answered` is called for every result.
    """
    question, way = made.question, made.way
    profiles = {one.name: one.profile for one in made.predictions[0].setup.servers}
    engine = engine_of(question.pool)
    servers = runtime.mocks(
        [
            {"name": name, "profile": profile.name, "slots": profile.slots, "speed": made.speed,
             "chunk_s": CHUNK_S, "engine": engine}
            for name, profile in profiles.items()
        ],
        question.pool,
    )  # fmt: skip
    keys = client_keys(question.fleet, way, question.pool)[0]
    names = [one.name for one in admitted_clients(question.fleet, way, question.pool)]
    if made.beside is not None:
        asked = Asked(made.beside.target, question.fleet, question.pool, servers)
        sender = Sender(question.workload, made.beside.way, question.pool, keys, names)
        sender.answered = answered
        with runtime.beside(asked, made.beside) as serving:
            detail("\n".join((f"{made.beside.file} is run with other addresses:", *serving.changes)))
            measured = _beside(made, made.beside, Run(serving, sender, servers, fresh), detail)
        yield measured
    for found in made.predictions:
        target = found.question.targets[0]
        for row in found.rows:
            parameters = setup_of(question.fleet, question.pool, row.strategy, None, ()).parameters
            fleet = mapping.with_strategy(question.fleet, question.pool, row.strategy, parameters)
            asked = Asked(target, fleet, fleet.pool(question.pool.name), servers)
            sender = Sender(question.workload, way, asked.pool, keys, names)
            sender.answered = answered
            with runtime.balancer(asked, way) as serving:
                detail(f"{target}, {row.strategy}: {_differences(fleet, target, serving)}")
                measured = _measured(made, found, row, Run(serving, sender, servers, fresh), detail)
            yield measured


class Run(NamedTuple):
    """What one measurement needs."""

    serving: Serving
    sender: Sender
    servers: Mapping[str, Standing]
    fresh: bool
    """Each request has a connection of its own."""


def _beside(made: Plan, old: Beside, run: Run, detail: Callable[[str], None]) -> Measured:
    """Measure a file that lbgen did not write."""
    taken, factor = _taken(made, made.predictions[0], run, detail, old.file)
    row = Row(BESIDE, old.target, (taken.figures,), file=old.file)
    why = tuple(failures.plain(one) for one in taken.failures)
    return Measured(None, row, taken.late, (), factor, taken.failures, why)


def _measured(made: Plan, found: Answer, row: Row, run: Run, detail: Callable[[str], None]) -> Measured:
    """Measure a strategy on a target."""
    target = found.question.targets[0]
    taken, factor = _taken(made, found, run, detail, f"{target}, {row.strategy}")
    if factor != made.speed:  # a queue's patience is another one in virtual seconds
        found = answer(faster(made.question, factor, target, (row.strategy,)))
        (row,) = found.rows
    gaps = _compared(found, row, taken, factor)
    reasons = failures.told(taken.failures, made.question.fleet, made.way.listener, made.question.pool)
    measured = row._replace(runs=(taken.figures,))
    return Measured(row, measured, taken.late, gaps, factor, taken.failures, tuple(reasons))


def _taken(
    made: Plan, found: Answer, run: Run, detail: Callable[[str], None], who: str
) -> tuple[measure.Taken, float]:
    """Return what was measured, and at which speed.

    A run that came out late is repeated at half the speed, twice when it is of no use at all.
    """
    factor = made.speed
    for left in reversed(range(AGAIN + 1)):
        try:
            taken = _once(made, found, run, factor)
            if taken.late.worst_s * factor <= _slack_s(found, factor) or left < AGAIN:
                break
            why = f"our own programs were {taken.late.worst_s * 1000:.0f} ms late"
        except measure.TooLateError as error:
            if not left:
                raise
            why = str(error)
        factor /= 2
        detail(f"{who}: once more, at {factor:.3g} times the GPUs' speed, because {why}")
    return taken, factor


def _once(made: Plan, found: Answer, run: Run, factor: float) -> measure.Taken:
    question = made.question
    requests = question.workload.requests(question.seeds[0], found.rate_per_s, question.requests)
    sent = measure.Load(run.sender.planned(requests, factor), run.sender.follow, run.fresh, run.sender.mock)
    taken = measure.measure(run.serving, sent, run.servers, factor)
    if question.workload.clients is None:
        return taken
    return taken._replace(figures=taken.figures._replace(steady=True))  # no more come than wait


def _slack_s(found: Answer, factor: float) -> float:
    """Return the virtual seconds that figures may be apart."""
    profiles = [server.profile for server in found.setup.servers]
    return agreement.slack_s(max(one.step + one.per_request * one.slots for one in profiles), factor)


def _compared(found: Answer, row: Row, taken: measure.Taken, factor: float) -> tuple[Gap, ...]:
    """Return the gaps; what chance does is only simulated where something does not agree."""
    planned = Runs.of(found.question)
    index = planned.names.index((row.strategy, row.target))
    slack_s, late_s = _slack_s(found, factor), STAGES * taken.late.worst_s * factor
    gaps = agreement.gaps(row.runs[0], taken.figures, slack_s)
    if all(gap.agrees for gap in gaps):
        return tuple(gaps)
    task = Task(
        planned.setups[index], found.question.workload, found.rate_per_s, found.question.requests,
        found.question.seeds[0],
    )  # fmt: skip
    gaps = agreement.gaps(row.runs[0], taken.figures, slack_s, agreement.luck(task, factor))
    return tuple(gap._replace(late_s=late_s) for gap in gaps)


def _differences(fleet: Fleet, target: str, serving: Serving) -> str:
    """Return how the tried files differ from those that `render` gives, secrets left out."""
    from difflib import unified_diff  # noqa: PLC0415 - only somebody who looks closer wants it

    said = "differs from the output of render in:"
    secrets = StandInSecrets()
    made = render(fleet, target, secrets=secrets)
    if secrets.left_out:  # HAProxy before 3.0 has a certificate joined with its key, and they are not here
        said = f"apart from certificates, {said}"
        made = render(certificates.like(fleet, serving.fleet), target, secrets=StandInSecrets())
    plain = {file.path: file.text for file in made}
    lines = [
        line
        for file in serving.files
        if not file.secret
        for line in unified_diff(
            plain.get(file.path, "").splitlines(), file.text.splitlines(),
            f"render/{file.path}", f"trial/{file.path}", lineterm="", n=0,
        )
    ]  # fmt: skip
    return "\n".join([said, *lines]) if lines else "same as the output of render"
