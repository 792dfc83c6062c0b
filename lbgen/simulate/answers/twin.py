"""A log beside the prediction for the same requests: where the two part, and which of them is likely wrong.

The log's requests are simulated once, at the times at which they came, under the fleet's own strategy. Times
are seconds.
"""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import LbgenError
from lbgen.simulate.answers.study import Plan
from lbgen.simulate.runs.run import run
from lbgen.simulate.runs.statistics import Quantiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lbgen.simulate.answers.study import Question
    from lbgen.simulate.load.logs.replay import Replay, Turn
    from lbgen.simulate.load.request import Request

    Pairs = Sequence[tuple[Turn, Request]]

NEAR_P50, NEAR_P99 = 0.15, 0.29
"""Shares by which a good prediction is off: what simulators of engines reach on GPUs (BLIS)."""
POINTS = 0.05
"""A server's share of the requests may be less by so much."""
LENGTHS_S = (60, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)
MOST_WINDOWS = 12
FEWEST = 20
"""Requests that a window needs to be compared."""
WARM_UP = 0.1
"""The first tenth of the requests is not compared: the prediction begins with empty servers and caches."""


class Pair(NamedTuple):
    """One figure, measured and predicted; None: not known."""

    name: str
    measured: float | None
    predicted: float | None

    @property
    def ratio(self) -> float | None:
        """Measured by predicted."""
        return self.measured / self.predicted if self.measured and self.predicted else None

    @property
    def near(self) -> bool:
        """Whether the two agree, or cannot be compared."""
        most = NEAR_P99 if self.name.endswith("p99") else NEAR_P50
        return self.ratio is None or 1 / (1 + most) <= self.ratio <= 1 + most


class Window(NamedTuple):
    """A stretch of the log."""

    begin_s: float
    """Since the epoch."""
    requests: int
    pairs: tuple[Pair, ...]
    idle: tuple[str, ...]
    """Servers of the fleet that had no request in it, in the log, though others had many."""


class Twin(NamedTuple):
    """What was measured and what is predicted for it."""

    strategy: str
    target: str | None
    requests: int
    failed: int
    """Requests that the prediction did not answer: its queue was full or their time was over."""
    length_s: float
    """Of a window."""
    pairs: tuple[Pair, ...]
    windows: tuple[Window, ...]
    shares: Mapping[str, Pair]
    """By server: of all requests."""
    prompts_known: bool
    """The log tells the sizes of prompts."""


def twin(question: Question, log: Replay) -> Twin:
    """Simulate what a log recorded; raises `LbgenError` for one without durations."""
    if not any(turn.duration_s for turn in log.turns):
        raise LbgenError(
            f"{log.name}: tells no durations, so there is nothing to compare a prediction with: lbgen's own "
            "log, NGINX's $request_time in JSON and HAProxy's httplog tell them"
        )
    plan = Plan.of(question._replace(workload=log, requests=len(log.turns), alone=True))
    figures = run(plan.tasks()[0])
    whole = log.replayed
    compared = [one for one in whole[int(len(whole) * WARM_UP) :] if one[1].finished >= 0]
    setup, length = plan.setups[0], _length(whole)
    own = [server.name for server in setup.servers]
    return Twin(
        setup.strategy,
        setup.target,
        len(whole),
        sum(request.finished < 0 for _, request in whole),
        length,
        tuple(_pairs(compared)),
        tuple(_windows(compared, length, own)),
        _shares(whole, {one.name: one.requests for one in figures.servers}),
        all(turn.sized for turn in log.turns),
    )


Figure = tuple["Callable[[Turn], float | None]", "Callable[[Request], float]"]

FIGURES: Mapping[str, Figure] = {
    "queue": (lambda turn: turn.queue_s, lambda request: request.sent - request.arrived),
    "ttft": (lambda turn: turn.first_s, lambda request: request.first - request.arrived),
    "token": (
        lambda turn: (
            (turn.duration_s - turn.first_s) / (turn.output_tokens - 1)
            if turn.first_s is not None and turn.duration_s is not None and turn.output_tokens > 1
            else None
        ),
        lambda request: (request.finished - request.first) / max(1, request.output_tokens - 1),
    ),
    "e2e": (lambda turn: turn.duration_s, lambda request: request.finished - request.arrived),
}
"""What is compared: the wait in the balancer, the first token, the time between tokens, the whole answer."""


def _pairs(rows: Pairs) -> Iterator[Pair]:
    for name, (measured, predicted) in FIGURES.items():
        values, expected = Quantiles(), Quantiles()
        for turn, request in rows:
            if (value := measured(turn)) is not None:
                values.add(value)
                expected.add(predicted(request))
        for share, one, other in zip((50, 99), values.at(0.5, 0.99), expected.at(0.5, 0.99), strict=True):
            yield Pair(f"{name}_p{share}", one, other)


def _length(rows: Pairs) -> float:
    span = rows[-1][0].at_s - rows[0][0].at_s
    return float(next((one for one in LENGTHS_S if span / one <= MOST_WINDOWS), LENGTHS_S[-1]))


def _windows(rows: Pairs, length_s: float, servers: Sequence[str]) -> Iterator[Window]:
    by_window: dict[int, list[tuple[Turn, Request]]] = {}
    for row in rows:
        by_window.setdefault(int(row[0].at_s // length_s), []).append(row)
    for number, found in sorted(by_window.items()):
        if len(found) >= FEWEST:
            seen = Counter(turn.server for turn, _ in found if turn.server)
            idle = tuple(name for name in servers if name not in seen) if _many(seen, servers) else ()
            yield Window(number * length_s, len(found), tuple(_pairs(found)), idle)


def _many(seen: Counter[str], servers: Sequence[str]) -> bool:
    """Tell whether a server that saw nothing is none by chance: its share would have been ten."""
    return any(name in seen for name in servers) and seen.total() >= 10 * len(servers)


def _shares(rows: Pairs, predicted: Mapping[str, int]) -> dict[str, Pair]:
    seen = Counter(turn.server for turn, _ in rows if turn.server)
    if not seen:
        return {}
    sent = sum(predicted.values()) or 1
    names = [*predicted, *sorted(name for name in seen if name not in predicted)]
    return {
        name: Pair("share", seen[name] / seen.total(), predicted[name] / sent if name in predicted else None)
        for name in names
    }


def findings(found: Twin) -> Iterator[str]:
    """Yield where measured and predicted part, and what that speaks for, in words."""
    pairs = {pair.name: pair for pair in found.pairs}
    yield from _strangers(found)
    yield from _of_tokens(pairs["token_p50"])
    yield from _of_first(pairs, found)
    yield from _of_queue(pairs)
    yield from _of_tail(pairs, found)


def _strangers(found: Twin) -> Iterator[str]:
    strange = [name for name, pair in found.shares.items() if pair.predicted is None]
    if strange and len(strange) == sum(pair.measured != 0 for pair in found.shares.values()):
        return  # another balancer's names, or addresses: they tell nothing
    if strange:
        names = ", ".join(strange[:5])
        yield f"the log names servers that the fleet has not: {names}. Another fleet ran then"
    for name, pair in found.shares.items():
        if pair.predicted is not None and pair.predicted - (pair.measured or 0) > POINTS:
            yield (
                f"{name} took {pair.measured or 0:.0%} of the requests, and should have taken "
                f"{pair.predicted:.0%}: it was out for a while, or weights or strategy were others"
            )


def _of_tokens(pair: Pair) -> Iterator[str]:
    if not pair.near and pair.ratio and pair.measured and pair.predicted:
        yield (
            f"tokens come every {pair.measured * 1000:.3g} ms, {pair.ratio:.2g} times as long as predicted "
            f"({pair.predicted * 1000:.3g} ms): the profile is not this engine's (lbgen calibrate measures "
            "one), or answers have other sizes than was assumed (stream_bytes=N)"
        )


def _of_first(pairs: Mapping[str, Pair], found: Twin) -> Iterator[str]:
    first, queue = pairs["ttft_p50"], pairs["queue_p50"]
    if first.near or not first.ratio:
        return
    if not found.prompts_known:
        why = "the log does not tell the sizes of all prompts, and those assumed may be wrong (prompt=N)"
    elif not queue.near:
        why = "the wait in the balancer explains it"
    elif found.windows and first.ratio < 1:
        why = "prompts cost less than the profile says, or the prefix caches held more than the log tells"
    else:
        why = "prompts cost more than the profile says, or somebody else used the servers, too"
    yield f"first tokens come {first.ratio:.2g} times as late as predicted (median): {why}"


def _of_queue(pairs: Mapping[str, Pair]) -> Iterator[str]:
    queue = pairs["queue_p99"]
    measured, predicted = queue.measured or 0.0, queue.predicted or 0.0
    if queue.measured is not None and abs(measured - predicted) > max(
        0.1, NEAR_P99 * max(measured, predicted)
    ):
        yield (
            f"requests wait {measured:.3g} s in the balancer (P99), predicted {predicted:.3g} s: the fleet's "
            "max_in_flight was another one, or a server was out"
        )


def _of_tail(pairs: Mapping[str, Pair], found: Twin) -> Iterator[str]:
    for name, title in (("ttft", "first token"), ("e2e", "whole answer")):
        middle, tail = pairs[f"{name}_p50"], pairs[f"{name}_p99"]
        if tail.near or not middle.near or not tail.ratio:
            continue
        worst = _worst(found, name)
        yield f"{title}: medians agree, and P99 is {tail.ratio:.2g} times the predicted one{worst}"


def _worst(found: Twin, name: str) -> str:
    """Return the window in which a percentile parts most, in words."""
    tails = [(pair.ratio, window) for window in found.windows for pair in window.pairs
             if pair.name == f"{name}_p99" and pair.ratio]  # fmt: skip
    if len(tails) < 2:
        return ""
    ratio, window = max(tails, key=lambda one: abs(one[0] - 1))
    if window.idle:
        why = f": {', '.join(window.idle)} took nothing then, which the prediction does not know"
    elif ratio > 2 * median(one for one, _ in tails):
        why = ": something happened then that no prediction knows"
    else:
        why = ""
    return f", most of all from {clock(window.begin_s)} on ({ratio:.2g} times){why}"


def clock(at_s: float) -> str:
    """Return a time of the log for people, in UTC."""
    from datetime import UTC, datetime  # noqa: PLC0415 - only here

    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M}"
