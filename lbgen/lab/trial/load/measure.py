"""One measured run: requests sent open-loop, and what came back as the figures that `simulate` gives."""

from __future__ import annotations

import asyncio
import json
import time
from bisect import bisect
from itertools import pairwise
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.lab import load
from lbgen.lab.boxes import fetch
from lbgen.lab.problems import RigError
from lbgen.lab.trial.results.failures import Failure, failures, reason_of
from lbgen.simulate.runs.result import CURVE_POINTS, SERIES_POINTS, Figures, ServerFigures, Spread
from lbgen.simulate.runs.statistics import Quantiles, grows
from lbgen.simulate.runs.tally import STRETCHES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lbgen.lab.trial.stage.mapping import Standing
    from lbgen.lab.trial.stage.ready import Serving
    from lbgen.units import Address

    Series = Sequence[tuple[float, int]]

ADVICE = "the run is discarded. Try a lower --rate, or a less busy machine"


class Lateness(NamedTuple):
    """How late, on the wall clock, our own programs were."""

    driver: load.Lateness
    mocks_p99_s: float
    """By how much first and last tokens missed their time; the latest of the mock GPU servers."""

    @property
    def worst_s(self) -> float:
        """The later of the two, 99th percentile."""
        return max(self.driver.p99_s, self.mocks_p99_s)


class Taken(NamedTuple):
    """One run as it was measured."""

    figures: Figures
    late: Lateness
    failures: tuple[Failure, ...] = ()


class TooLateError(RigError):
    """Driver or mocks could not keep up: nothing can be told of the run."""


class Load(NamedTuple):
    """What is sent, and how."""

    planned: Sequence[load.Planned]
    follow: load.Follow | None = None
    fresh: bool = False
    """Each request has a connection of its own."""
    mock: Mapping[str, object] = {}
    """Settings of the mock GPU servers."""


def measure(serving: Serving, sent: Load, servers: Mapping[str, Standing], speed: float) -> Taken:
    """Send all requests and return the figures, in virtual seconds. Raises `RigError`, `TooLateError`."""
    for one in servers.values():
        _control(one.control, "POST", "reset")
        # The engine begins anew, with an empty cache.
        _control(one.control, "POST", "configure", speed=speed, **sent.mock)
    begin = time.monotonic()
    try:
        results = asyncio.run(
            load.run(serving.url, sent.planned, tls=serving.tls, follow=sent.follow, fresh=sent.fresh)
        )
    except load.CouldNotKeepUpError as error:
        raise TooLateError(f"{error}; {ADVICE}") from None
    states = [_control(one.control, "GET", "state") for one in servers.values()]
    late = Lateness(load.Lateness.of(results), max(float(one["late_p99_s"] or 0.0) for one in states))
    if late.mocks_p99_s > load.MOST_LATE_S:
        raise TooLateError(f"the mock GPU servers were {late.mocks_p99_s * 1000:.0f} ms late; {ADVICE}")
    end = begin + max(result.ended_s for result in results)
    series = {name: _series(one.control) for name, one in servers.items()}
    found = figures(results, series, begin, end, speed)
    return Taken(found._replace(prefix_hit_ratio=_hit_ratio(states)), late, failures(results))


def figures(
    results: Sequence[load.Result], series: Mapping[str, Series], begin: float, end: float, speed: float
) -> Figures:
    """Return the figures of a run between two moments of the wall clock."""
    good = [result for result in results if result.ok]
    arrivals = sorted(result.planned.at_s for result in results)
    warm = arrivals[len(results) // 10]  # latencies count from there on, as in predictions
    errors: dict[str, int] = {}
    for result in results:
        if not result.ok:
            reason = reason_of(result)
            errors[reason] = errors.get(reason, 0) + 1
    first = min(result.planned.at_s for result in results)
    duration = end - begin - first
    counted = [one for one in good if one.planned.at_s >= warm]
    firsts = _quantiles(((one.first_s or 0.0) - one.planned.at_s for one in counted), speed)
    wholes = _quantiles((one.latency_s for one in counted), speed)
    return Figures(
        requests=len(results),
        ok=len(good),
        errors=dict(sorted(errors.items())),
        duration_s=duration * speed,
        ttft_s=Spread.of(firsts),
        e2e_s=Spread.of(wholes),
        queue_s=Spread(),
        tokens_per_s=sum(one.planned.output_tokens for one in good) / duration / speed if duration else None,
        load_stdev=load_stdev(list(series.values()), begin + first + duration / 10, end),
        prefix_hit_ratio=None,
        servers=tuple(
            ServerFigures(
                name,
                sum(one.server == name for one in results),
                _mean(one, begin + first, end),
                max((count for _, count in one), default=0),
            )
            for name, one in series.items()
        ),
        curves={"ttft": firsts.curve(CURVE_POINTS), "e2e": wholes.curve(CURVE_POINTS)},
        in_flight=[_averages(one, begin + first, end) for one in series.values()],
        steady=not grows(_in_system(results)),
    )


def _in_system(results: Sequence[load.Result]) -> list[float]:
    """Return the requests in the system that each request met, averaged over ten stretches of the run."""
    arrivals = sorted(result.planned.at_s for result in results)
    ends = sorted(result.ended_s for result in results)
    open_ = [n + 1 - bisect(ends, at) for n, at in enumerate(arrivals)][len(results) // 10 :]
    size = len(open_) // STRETCHES
    return [sum(open_[n * size : (n + 1) * size]) / size for n in range(STRETCHES)] if size else []


def load_stdev(series: Sequence[Series], begin: float, end: float) -> float | None:
    """Return the time average of the population standard deviation of requests in flight over the servers."""
    if end <= begin:
        return None
    changes = sorted((when, index, count) for index, one in enumerate(series) for when, count in one)
    now = [0] * len(series)
    last, total = begin, 0.0
    for when, index, count in [*changes, (end, 0, 0)]:
        until = min(max(when, begin), end)
        if until > last:
            mean = sum(now) / len(now)
            total += (until - last) * sqrt(sum((one - mean) ** 2 for one in now) / len(now))
            last = until
        now[index] = count
    return total / (end - begin)


def _averages(series: Series, begin: float, end: float) -> list[float]:
    """Return the requests in flight, averaged over equal stretches of a run."""
    step = (end - begin) / SERIES_POINTS
    return [_mean(series, begin + step * n, begin + step * (n + 1)) for n in range(SERIES_POINTS)]


def _mean(series: Series, begin: float, end: float) -> float:
    moments = [*series, (max(end, begin), 0)]
    area = sum(
        count * max(0.0, min(after, end) - max(when, begin))
        for (when, count), (after, _) in pairwise(moments)
    )
    return area / (end - begin) if end > begin else 0.0


def _quantiles(values: Iterable[float], speed: float) -> Quantiles:
    quantiles = Quantiles()
    for value in values:
        quantiles.add(max(0.0, value) * speed)
    return quantiles


def _hit_ratio(states: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the share of the prompts' tokens that prefix caches held; None where no server has one."""
    prompts = sum(one["finished_prompt_tokens"] for one in states)
    if not prompts or not any(one["prefix_cache"] for one in states):
        return None
    return float(sum(one["hit_tokens"] for one in states) / prompts)


def _series(address: Address) -> list[tuple[float, int]]:
    return [tuple(one) for one in _control(address, "GET", "in_flight")]


def _control(address: Address, method: str, command: str, **fields: object) -> Any:  # noqa: ANN401 - JSON
    body = json.dumps(fields).encode() if method == "POST" else None
    try:
        answer = fetch(f"http://{address}/mock/{command}", method, body, timeout_s=30)
    except OSError as error:
        raise RigError(f"the mock GPU server on {address} is gone: {error}") from None
    return json.loads(answer.body)
