"""Step times from measurements: reports of aiperf or guidellm on one server, or a result of `trial`.

Feasible: the step (from the time between tokens), what a request in the batch adds to it (from two
concurrencies on), and the cost of prompt tokens (from the first token at the lowest concurrency). Not
feasible: slots, the size of the KV cache, the cost of its tokens, and attention; these stay the profile's.

Of a report the tenth percentiles count, not the means: a mean time between tokens has the prompts of other
requests in it, and a mean first token the wait behind them. Seen with both tools before a server whose step
was known: at 32 requests in flight guidellm's mean was 40 % too long, its tenth percentile 7 %.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.problems import LbgenError
from lbgen.reading import read_text, readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lbgen.simulate.servers.step_times.profiles import Profile

CALM = 0.1
"""Waits of more than this share of the whole time hide how many requests were in the batch."""


class Point(NamedTuple):
    """One measurement of one server: requests in flight, seconds between tokens, and the first token."""

    in_flight: float
    token_s: float
    first_s: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float = 0.0

    @property
    def context(self) -> float:
        """KV tokens that a request holds, averaged over the time it decodes; 0 when nobody knows."""
        return 0.0 if self.prompt_tokens is None else self.prompt_tokens + self.output_tokens / 2


class Calibration(NamedTuple):
    """What measurements say of a server."""

    points: tuple[Point, ...]

    def applied(self, profile: Profile) -> Profile:
        """Return a profile with what was measured; what was not stays."""
        step, per_request = self._line(profile)
        low = min(self.points)
        prompt = profile.per_prefill_token
        if low.first_s is not None and low.prompt_tokens and low.first_s > low.token_s:
            prompt = (low.first_s - low.token_s) / low.prompt_tokens
        name = f"{profile.name} calibrated"
        return profile._replace(name=name, step=step, per_request=per_request, per_prefill_token=prompt)

    def _line(self, profile: Profile) -> tuple[float, float]:
        """Return step and slope of the least squares; one concurrency alone leaves the slope as it is."""
        pairs = [
            (one.in_flight, one.token_s - profile.per_kv_token * one.in_flight * one.context)
            for one in self.points
        ]
        count, per_request = len(pairs), profile.per_request
        n, token = (sum(values) / count for values in zip(*pairs, strict=True))
        squares = sum((one - n) ** 2 for one, _ in pairs)
        if squares > 1e-6:
            per_request = max(0.0, sum((one - n) * (time - token) for one, time in pairs) / squares)
        return max(token - per_request * n, token / 10), per_request


def read_calibrations(paths: Iterable[Path]) -> Calibration:
    """Return what several files say together; raises `LbgenError` for one that says nothing of use."""
    return Calibration(tuple(point for path in paths for point in read_calibration(path).points))


def read_calibration(path: Path) -> Calibration:
    """Return what a file says; raises `LbgenError` for one that says nothing of use."""
    with readable(path):
        text = read_text(path, errors="replace")
    try:
        points = tuple(
            point for point in _points(json.loads(text)) if point.token_s > 0 and point.in_flight > 0
        )
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
        yield _of_aiperf(data)


def _of_aiperf(data: Any) -> Point:  # noqa: ANN401 - likewise
    prompt, output = _mean(data, "input_sequence_length"), _mean(data, "output_sequence_length")
    token, counted = _seconds(data, "inter_token_latency"), _mean(data, "usage_completion_tokens")
    if output and counted:  # aiperf counts with a tokenizer of its own, the server with the model's
        token *= (output - 1) / (counted - 1)
    flying = _mean(data, "effective_concurrency")
    if flying is None:  # Little's law
        flying = data["request_throughput"]["avg"] * _seconds(data, "request_latency", "avg")
    first, asked = _seconds(data, "time_to_first_token"), _mean(data, "usage_prompt_tokens")
    return Point(flying, token, first, asked or prompt, counted or output or 0.0)


def _mean(data: Any, name: str) -> float | None:  # noqa: ANN401 - likewise
    return float(data[name]["avg"]) if name in data else None


def _seconds(data: Any, name: str, statistic: str = "p10") -> float:  # noqa: ANN401 - likewise
    factors = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "us": 1e-6, "ns": 1e-9}
    found = data[name]
    return float(found.get(statistic, found["avg"])) * factors[found["unit"]]


def _of_guidellm(metrics: Any) -> Point:  # noqa: ANN401 - likewise
    def figures(name: str) -> Any:  # noqa: ANN401 - likewise
        return metrics[name]["successful"]

    def mean(name: str) -> float:
        return float(figures(name)["mean"])

    def low(name: str) -> float:
        return float(figures(name).get("percentiles", {}).get("p10") or mean(name)) / 1000

    return Point(
        mean("request_concurrency"), low("inter_token_latency_ms"), low("time_to_first_token_ms"),
        mean("prompt_token_count"), mean("output_token_count") if "output_token_count" in metrics else 0.0,
    )  # fmt: skip


def _calm(row: Any) -> bool:  # noqa: ANN401 - likewise
    waited = row["queue_s"].get("mean")
    return bool(row["ok"]) and (waited is None or waited <= CALM * row["e2e_s"]["mean"])


def _of_result(row: Any) -> Point:  # noqa: ANN401 - likewise
    tokens = row["tokens_per_s"] * row["duration_s"] / row["ok"]
    servers = row["servers"]
    in_flight = sum(one["mean_in_flight"] for one in servers) / len(servers)
    return Point(in_flight, (row["e2e_s"]["mean"] - row["ttft_s"]["mean"]) / (tokens - 1))
