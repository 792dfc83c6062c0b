"""Whether a prediction and a measurement agree, and where not, whether that is chance.

Latencies agree within 15 %, or within two decode steps and 5 ms of the wall clock where that is more: a
request meets the step that is under way, and the way through sockets and event loops is no part of the model.
Shares agree within 5 points, of prefix caches within 3. What is further apart can still be chance: a run with
the same requests, in which a few of them swapped places, may give the measured figure as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.simulate.runs.chance import replicas
from lbgen.simulate.runs.result import seconds
from lbgen.simulate.runs.run import sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lbgen.simulate.runs.result import Figures
    from lbgen.simulate.runs.run import Task

SHARE = 0.15
STEPS = 2
WALL_S = 0.005
POINTS = 0.05
HIT_POINTS = 0.03
"""By how many points the share of prompts that prefix caches held may differ."""

LATENCIES: Mapping[str, Callable[[Figures], float | None]] = {
    "first token P50": lambda run: run.ttft_s.p50,
    "first token P99": lambda run: run.ttft_s.p99,
    "whole answer P50": lambda run: run.e2e_s.p50,
    "whole answer P99": lambda run: run.e2e_s.p99,
}
REPLICAS = 40
MOST_REQUESTS = 100_000
"""Of all replicas together, so that nobody waits long for them."""


class Gap(NamedTuple):
    """One figure, predicted and measured: seconds, or shares from 0 to 1."""

    what: str
    predicted: float
    measured: float
    allowed: float
    """How far apart the two may be."""
    chance: tuple[float, float] | None = None
    """Between which values replicas of the prediction lie; None: nobody looked."""
    late_s: float = 0.0
    """How much later than the model load driver and mocks were themselves, in virtual seconds."""

    @property
    def agrees(self) -> bool:
        return abs(self.measured - self.predicted) <= self.allowed

    @property
    def by_chance(self) -> bool:
        """True when replicas of the prediction come as near as an agreement needs."""
        if self.chance is None:
            return False
        low, high = self.chance
        return low - self.allowed <= self.measured <= high + self.allowed

    @property
    def by_lateness(self) -> bool:
        """True when our own programs were late enough to account for the difference."""
        if self.what not in LATENCIES:
            return False
        high = max(self.predicted, self.chance[1] if self.chance else 0.0)
        return high < self.measured <= high + self.allowed + self.late_s

    @property
    def told(self) -> str:
        """Both figures, for people."""
        one, other = map(self.figure, (self.measured, self.predicted))
        band = ""
        if self.chance is not None:
            band = f" ({' to '.join(map(self.figure, self.chance))} by chance)"
        return f"{self.what} measured {one}, predicted {other}{band}"

    def figure(self, value: float) -> str:
        """Return one of its values for people."""
        return seconds(value) if self.what in LATENCIES else f"{value:.1%}"


def gaps(
    predicted: Figures,
    measured: Figures,
    slack_s: float,
    chances: Sequence[Figures] = (),
    *,
    tail: float = 0.0,
) -> list[Gap]:
    """Return every figure that has to agree.

    `chances` are replicas of the prediction, of which `tail` is left out at each end.
    """

    def band(figure: Callable[[Figures], float | None]) -> tuple[float, float] | None:
        values = sorted(value for value in map(figure, chances) if value is not None)
        beyond = int(tail * len(values))
        return (values[beyond], values[-1 - beyond]) if values else None

    found = []
    for what, figure in LATENCIES.items():
        before, after = figure(predicted), figure(measured)
        if before is not None and after is not None:
            allowed = max(SHARE * before, slack_s)
            found.append(Gap(what, before, after, allowed, band(figure)))
    shares = {"refused": _refused} | {
        f"share of {one.name}": _share(index) for index, one in enumerate(predicted.servers)
    }
    found += [
        Gap(what, figure(predicted), figure(measured), POINTS, band(figure))
        for what, figure in shares.items()
    ]
    before, after = predicted.prefix_hit_ratio, measured.prefix_hit_ratio
    if before and after:
        hits = band(lambda run: run.prefix_hit_ratio)
        found.append(Gap("prompt tokens from prefix caches", before, after, HIT_POINTS, hits))
    return found


def slack_s(step_s: float, speed: float) -> float:
    """Return the virtual seconds that figures may always be apart, for a full batch's step."""
    return STEPS * step_s + WALL_S * speed


def luck(task: Task, speed: float) -> list[Figures]:
    """Return replicas of a prediction: arrivals up to 5 ms of the wall clock later, and other draws."""
    count = max(5, min(REPLICAS, MOST_REQUESTS // task.requests))
    return list(sweep(replicas(task, count, WALL_S * speed)))


def _refused(run: Figures) -> float:
    return 1 - run.ok / run.requests


def _share(index: int) -> Callable[[Figures], float]:
    def share(run: Figures) -> float:
        return run.servers[index].requests / (sum(one.requests for one in run.servers) or 1)

    return share
