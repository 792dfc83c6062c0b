"""An objective such as ``ttft_p99<2s``, and the highest rate at which a strategy meets it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import LbgenError
from lbgen.simulate.answers.study import answer, strategies_of
from lbgen.simulate.runs.result import combined
from lbgen.simulate.sizing.narrow import least

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.simulate.answers.study import Question
    from lbgen.simulate.runs.result import Figures

DISTRIBUTIONS = {"ttft": "ttft_s", "e2e": "e2e_s", "queue": "queue_s"}
LOADS = 128
"""Loads that are searched, evenly below 1: above, a backlog grows, which a short run would hide."""
STEPS = 7
"""About how many of them are tried for the first strategy; each further one begins at the former's."""


class Objective(NamedTuple):
    """A figure that has to stay below a limit."""

    metric: str
    limit: float
    """Seconds, or for `load_stdev` requests."""
    text: str = ""
    """As it was written."""

    def met(self, run: Figures) -> bool:
        """Tell whether a run meets it; refusing requests does not count as meeting it."""
        value = self.value(run)
        return value is not None and value < self.limit and answered(run)

    def value(self, run: Figures) -> float | None:
        """Return the figure that it is about; None where nothing was answered."""
        if self.metric == "load_stdev":
            return run.load_stdev
        name, _, share = self.metric.partition("_")
        value: float | None = getattr(getattr(run, DISTRIBUTIONS[name]), share)
        return value


def answered(run: Figures) -> bool:
    """Tell whether at most one request in a thousand failed."""
    return run.requests - run.ok <= run.requests / 1000


def parse_objective(text: str) -> Objective:
    """Return the objective that a text stands for; raises `LbgenError`."""
    match = re.fullmatch(r"\s*(\w+)\s*<\s*(\d+(?:\.\d+)?)\s*(ms|s)?\s*", text, re.ASCII)
    names = [f"{name}_{share}" for name in DISTRIBUTIONS for share in ("mean", "p50", "p90", "p95", "p99")]
    if not match or match[1] not in (*names, "load_stdev"):
        raise LbgenError(
            f"'{text}' is not an objective: write one such as ttft_p99<2s, of ttft, e2e or queue and mean, "
            "p50, p90, p95 or p99, or load_stdev<3"
        )
    return Objective(match[1], float(match[2]) * (0.001 if match[3] == "ms" else 1.0), text.strip())


def capacities(
    question: Question, objective: Objective, seen: Callable[[int, int], None] | None = None
) -> Iterator[tuple[tuple[str, str | None], float]]:
    """Yield for each strategy and target the most requests a second with the objective met, 0 for none.

    `seen` is told how many steps of how many are done.
    """
    names = [(name, target) for target in question.targets or (None,) for name in strategies_of(question)]
    guess = LOADS // 4
    for place, (strategy, target) in enumerate(names):
        own = question._replace(
            strategies=(strategy,), targets=(target,) if target else (), alone=True, peers=()
        )
        tried = _Tried(own, objective, place * STEPS, len(names) * STEPS, seen)
        found = least(tried.met, guess, 1, LOADS - 1)
        yield (strategy, target), 0.0 if found is None else tried.rates[found]
        guess = found or guess


class _Tried:
    """What a strategy does at the loads that were tried, the highest first: 1 is just below the capacity."""

    def __init__(
        self,
        question: Question,
        objective: Objective,
        before: int,
        total: int,
        seen: Callable[[int, int], None] | None,
    ) -> None:
        self._question = question
        self._objective = objective
        self._before = before
        self._total = total
        self._seen = seen
        self.rates: dict[int, float] = {}
        """Requests a second by the number of the load."""

    def met(self, number: int) -> bool:
        """Tell whether the objective is met at a load."""
        found = answer(self._question._replace(rate_per_s=None, load=1 - number / LOADS))
        self.rates[number] = found.rate_per_s
        if self._seen is not None:
            self._seen(self._before + min(STEPS, len(self.rates)), self._total)
        return self._objective.met(combined(found.rows[0].runs))
