"""What is tried of a question, and how fast: what cannot be tried is said before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.lab.trial.asked import speed
from lbgen.lab.trial.beside import beside
from lbgen.lab.trial.load.sending import client_keys
from lbgen.lab.trial.stage import certificates, mapping
from lbgen.problems import LbgenError
from lbgen.simulate.answers.study import answer, missing_facts, strategies_of
from lbgen.simulate.runs.run import cores
from lbgen.simulate.servers.pool import setup_of
from lbgen.strategies.kv_cache import KV_CACHE
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbgen.lab.trial.beside import Beside
    from lbgen.lab.trial.stage.mapping import Way
    from lbgen.simulate.answers.study import Answer, Question
    from lbgen.simulate.load.workload import Workload


class Plan(NamedTuple):
    """What is tried, and how fast."""

    question: Question
    predictions: tuple[Answer, ...]
    """By target, in the order of the question's."""
    speed: float
    way: Way
    beside: Beside | None = None

    @property
    def runs(self) -> int:
        """How many there are."""
        return sum(len(found.rows) for found in self.predictions) + (self.beside is not None)


def plan(
    question: Question,
    say: Callable[[str], None],
    *,
    stand_ins: bool = False,
    old: str | None = None,
    fastest: float = speed.FASTEST,
) -> Plan:
    """Return what can be tried of a question with targets; `say` hears what cannot. Raises `LbgenError`.

    `stand_ins`: certificates that are not here are made up. `old`: a file that is tried beside. `fastest`:
    the speed is not above.
    """
    fleet, divided = mapping.undivided(question.fleet, question.pool)
    if divided:
        say(f"trial: all of {', '.join(divided)} goes to {question.pool.name}, nothing to its other pools")
    question = question._replace(fleet=fleet)
    way = mapping.way_to(question.fleet, question.pool, chat=_is_talk(question.workload))
    made_up = certificates.absent(question.fleet, question.pool, question.targets)
    if made_up and not stand_ins:
        raise LbgenError(certificates.refusal(made_up))
    if made_up:
        say(f"trial: generated certificates for {certificates.listed(made_up)}")
    absent = client_keys(question.fleet, way, question.pool)[1]
    if absent:
        say(f"trial: stand-ins for secrets: {', '.join(absent)}")
    usable = [(target, _usable(question, target, say)) for target in question.targets]
    usable = [(target, names) for target, names in usable if names]
    if not usable:
        raise LbgenError("nothing is left to try")
    carried, chosen, predictions = speed.carried_per_s(cores()), 0.0, []
    for _ in range(2):  # the queue's real seconds depend on the speed, and that on the run's length
        asked = [faster(question, chosen or 1.0, target, names) for target, names in usable]
        predictions = [answer(one) for one in asked]
        longest = max(row.runs[0].duration_s for one in predictions for row in one.rows)
        step = min(server.profile.step for server in predictions[0].setup.servers)
        chosen = min(fastest, speed.choose(longest, predictions[0].rate_per_s, step, carried))
        if any(row.strategy == KV_CACHE.name for one in predictions for row in one.rows):
            chosen = min(chosen, 1.0)  # the agent and HAProxy's questions go by the clock
    for name in missing_facts(
        question.workload, list(dict.fromkeys(sum((names for _, names in usable), ())))
    ):
        say(f"trial: requests of {question.workload.name} have no {name}: try --workload agents or tenants")
    other = beside(old, question.pool, way, say, stand_ins=stand_ins) if old is not None else None
    return Plan(question, tuple(predictions), chosen, way, other)


def faster(question: Question, factor: float, target: str, names: tuple[str, ...]) -> Question:
    """Return the question for one target, its queue's patience in virtual seconds."""
    pool = question.pool
    pool = pool._replace(queue=pool.queue._replace(timeout=round(pool.queue.timeout * factor)))
    return question._replace(pool=pool, targets=(target,), strategies=names, alone=True)


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


def _is_talk(workload: Workload) -> bool:
    """Tell whether requests belong to sessions or share a beginning: such are sent as chats."""
    sample = next(iter(workload.requests(0, 1.0, 1)))
    return sample.session is not None or sample.prefix is not None
