"""Step times from a measurement: a report of aiperf or guidellm on one server, or a result of `trial`.

Feasible from averages: the step (from the time between tokens), what a request in the batch adds to it (from
two concurrencies on), and the cost of prompt tokens (from the first token at the lowest concurrency). Not
feasible: slots, the size of the KV cache, the cost of its tokens, and attention; these stay the profile's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.problems import LbgenError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lbgen.simulate.profiles import Profile

CALM = 0.1
"""Waits of more than this share of the whole time hide how many requests were in the batch."""


class Point(NamedTuple):
    """One measurement of one server: requests in flight, seconds between tokens, and the first token."""

    in_flight: float
    token_s: float
    first_s: float | None = None
    prompt_tokens: float | None = None


class Calibration(NamedTuple):
    """What measurements say of a server."""

    points: tuple[Point, ...]

    def applied(self, profile: Profile) -> Profile:
        """Return a profile with what was measured; what was not stays."""
        step, per_request = self._line(profile.per_request)
        low = min(self.points)
        prompt = profile.per_prefill_token
        if low.first_s is not None and low.prompt_tokens and low.first_s > low.token_s:
            prompt = (low.first_s - low.token_s) / low.prompt_tokens
        name = f"{profile.name} calibrated"
        return profile._replace(name=name, step=step, per_request=per_request, per_prefill_token=prompt)

    def _line(self, per_request: float) -> tuple[float, float]:
        """Return step and slope of the least squares; one concurrency alone leaves the slope as it is."""
        count = len(self.points)
        n = sum(point.in_flight for point in self.points) / count
        token = sum(point.token_s for point in self.points) / count
        squares = sum((point.in_flight - n) ** 2 for point in self.points)
        if squares > 1e-6:
            products = sum((point.in_flight - n) * (point.token_s - token) for point in self.points)
            per_request = max(0.0, products / squares)
        return max(token - per_request * n, token / 10), per_request


def read_calibration(path: Path) -> Calibration:
    """Return what a file says; raises `LbgenError` for one that says nothing of use."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        points = tuple(point for point in _points(data) if point.token_s > 0 and point.in_flight > 0)
    except OSError as error:
        raise LbgenError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
        points = ()
    if not points:
        raise LbgenError(
            f"{path}: has no times between tokens that could be used: it has to be the JSON of aiperf, "
            "guidellm (streaming) or of lbgen trial or simulate with little waiting"
        )
    return Calibration(points)


def _points(data: Any) -> Iterator[Point]:  # noqa: ANN401 - anybody's JSON
    if "results" in data:
        yield from map(_of_result, filter(_calm, data["results"]))
    elif "benchmarks" in data:
        yield from (_of_guidellm(one["metrics"]) for one in data["benchmarks"])
    else:
        rate, whole = data["request_throughput"]["avg"], _seconds(data, "request_latency")
        prompt = data.get("input_sequence_length", {}).get("avg")
        token, first = _seconds(data, "inter_token_latency"), _seconds(data, "time_to_first_token")
        yield Point(rate * whole, token, first, prompt)  # Little's law


def _seconds(data: Any, name: str) -> float:  # noqa: ANN401 - likewise
    factors = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "us": 1e-6, "ns": 1e-9}
    return float(data[name]["avg"]) * factors[data[name]["unit"]]


def _of_guidellm(metrics: Any) -> Point:  # noqa: ANN401 - likewise
    def mean(name: str) -> float:
        return float(metrics[name]["successful"]["mean"])

    token, first = mean("inter_token_latency_ms") / 1000, mean("time_to_first_token_ms") / 1000
    return Point(mean("request_concurrency"), token, first, mean("prompt_token_count"))


def _calm(row: Any) -> bool:  # noqa: ANN401 - likewise
    waited = row["queue_s"].get("mean")
    return bool(row["ok"]) and (waited is None or waited <= CALM * row["e2e_s"]["mean"])


def _of_result(row: Any) -> Point:  # noqa: ANN401 - likewise
    tokens = row["tokens_per_s"] * row["duration_s"] / row["ok"]
    servers = row["servers"]
    in_flight = sum(one["mean_in_flight"] for one in servers) / len(servers)
    return Point(in_flight, (row["e2e_s"]["mean"] - row["ttft_s"]["mean"]) / (tokens - 1))
