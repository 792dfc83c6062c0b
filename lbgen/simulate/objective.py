"""An objective such as ``ttft_p99<2s``, and the highest rate at which a strategy meets it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import LbgenError
from lbgen.simulate.result import combined
from lbgen.simulate.study import answer, strategies_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.simulate.result import Figures
    from lbgen.simulate.study import Question

DISTRIBUTIONS = {"ttft": "ttft_s", "e2e": "e2e_s", "queue": "queue_s"}
LOWEST, HIGHEST = 0.02, 1.0
"""Loads between which is searched: above 1 a backlog grows, which a short run would hide."""
STEPS = 7
"""Halvings: the answer is good to 1 % of the servers' capacity."""


class Objective(NamedTuple):
    """A figure that has to stay below a limit."""

    metric: str
    limit: float
    """Seconds, or for `load_stdev` requests."""

    def met(self, run: Figures) -> bool:
        """Tell whether a run meets it; refusing requests does not count as meeting it."""
        value = self._value(run)
        return value is not None and value < self.limit and run.requests - run.ok <= run.requests / 1000

    def _value(self, run: Figures) -> float | None:
        if self.metric == "load_stdev":
            return run.load_stdev
        name, _, share = self.metric.partition("_")
        value: float | None = getattr(getattr(run, DISTRIBUTIONS[name]), share)
        return value


def parse_objective(text: str) -> Objective:
    """Return the objective that a text stands for; raises `LbgenError`."""
    match = re.fullmatch(r"\s*(\w+)\s*<\s*(\d+(?:\.\d+)?)\s*(ms|s)?\s*", text, re.ASCII)
    names = [f"{name}_{share}" for name in DISTRIBUTIONS for share in ("mean", "p50", "p90", "p95", "p99")]
    if not match or match[1] not in (*names, "load_stdev"):
        raise LbgenError(
            f"'{text}' is not an objective: write one such as ttft_p99<2s, of ttft, e2e or queue and mean, "
            "p50, p90, p95 or p99, or load_stdev<3"
        )
    return Objective(match[1], float(match[2]) * (0.001 if match[3] == "ms" else 1.0))


def capacities(
    question: Question, objective: Objective, seen: Callable[[int, int], None] | None = None
) -> Iterator[tuple[tuple[str, str | None], float]]:
    """Yield for each strategy and target the most requests a second with the objective met, 0 for none.

    `seen` is told how many steps of how many are done.
    """
    names = [(name, target) for target in question.targets or (None,) for name in strategies_of(question)]
    for place, (strategy, target) in enumerate(names):
        own = question._replace(
            strategies=(strategy,), targets=(target,) if target else (), alone=True, peers=()
        )
        rates: list[float] = []
        for rate in _narrowed(own, objective):
            rates.append(rate)
            if seen is not None:
                seen(place * STEPS + len(rates), len(names) * STEPS)
        yield (strategy, target), rates[-1]


def _narrowed(question: Question, objective: Objective) -> Iterator[float]:
    """Yield the highest rate that is known to meet the objective, after each step; 0 while none is."""
    low, high, rate = LOWEST, HIGHEST, 0.0
    for _ in range(STEPS):
        load = (low + high) / 2
        found = answer(question._replace(rate_per_s=None, load=load))
        if objective.met(combined(found.rows[0].runs)):
            low, rate = load, found.rate_per_s
        else:
            high = load
        yield rate
