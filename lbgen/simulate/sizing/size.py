"""How many servers of a kind an objective takes: the least number, its neighbours, and one that dies."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import LbgenError
from lbgen.simulate.answers.study import Plan, strategies_of
from lbgen.simulate.runs.run import sweep
from lbgen.simulate.servers.pool import profile_of
from lbgen.simulate.sizing.needed import EDGES, LONGEST, in_rotation, step_of
from lbgen.simulate.sizing.search import Search

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lbgen.model import Pool
    from lbgen.simulate.answers.study import Question
    from lbgen.simulate.sizing.needed import Needed, Step
    from lbgen.simulate.sizing.objective import Objective


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
                search = Search(own, objective, kind, seen)
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
        longest=LONGEST, edges=EDGES,
    )  # fmt: skip
    plan = Plan.of(alone)
    return step_of(in_rotation(question.pool), plan, objective, list(sweep(plan.tasks())))
