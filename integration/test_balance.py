"""Where requests go, by strategy, on the real programs with the rendered files.

Each balancer serves the same workload once per strategy: Poisson arrivals, 70 % of 20-100 and 30 % of
500-2000 output tokens, four servers with four slots each, at 80 % of their capacity. The simulation expects
a P99 of 19.4 s under least_conn and of 28.0 s under round_robin there, in virtual time.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

from integration.conftest import renewed
from integration.fleets import SERVERS, Proxy, chat
from integration.shares import Spread, spread
from lbgen.lab import load
from tests.arrivals import bimodal

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration.conftest import Start
    from lbgen.lab.boxes import MockBox

pytestmark = pytest.mark.alone

STRATEGIES = ("round_robin", "least_conn", "random_two")
SEED = 7
SPEED = 40
REQUESTS = 1500
RATE_PER_S = 4.15
"""80 % of what four servers with four slots can do, at a step of 7.4 ms and 417 tokens in the mean."""


class Measured(NamedTuple):
    """One run."""

    results: list[load.Result]
    spread: Spread

    @property
    def p99_s(self) -> float:
        return load.percentile([result.latency_s for result in self.results], 0.99)

    @property
    def shares(self) -> list[int]:
        return [sum(result.server == name for result in self.results) for name in SERVERS]


@pytest.fixture(scope="module")
def runs(module_proxy: Proxy, running_mocks: list[MockBox], start: Start) -> dict[str, Measured]:
    """The same workload under each strategy, one after the other."""
    return {name: _measure(name, module_proxy, running_mocks, start) for name in STRATEGIES}


def _measure(strategy: str, proxy: Proxy, mocks: list[MockBox], start: Start) -> Measured:
    renewed(mocks, slots=4, speed=SPEED, chunk_s=1.0)
    planned = bimodal(SEED, RATE_PER_S, REQUESTS, SPEED)
    with start(chat(strategy), proxy) as balancer:
        begin = time.monotonic()
        results = asyncio.run(load.run(balancer.url, planned, most_late_s=0.25))
    last = planned[-1].at_s
    series = [mock.in_flight() for mock in mocks]
    return Measured(results, spread(series, begin + last / 10, begin + last))


def test_every_request_is_answered_whole(runs: dict[str, Measured]) -> None:
    for name, measured in runs.items():
        failed = [result for result in measured.results if not result.ok]
        assert not failed, f"{name}: {failed[:3]}"


def test_round_robin_shares_by_count(runs: dict[str, Measured]) -> None:
    shares = runs["round_robin"].shares
    assert sum(shares) == REQUESTS
    assert max(shares) - min(shares) <= 2, shares


def test_least_conn_keeps_requests_in_flight_even(runs: dict[str, Measured]) -> None:
    least, robin = runs["least_conn"], runs["round_robin"]
    assert least.spread.range <= 2, least.spread
    assert least.spread.range <= robin.spread.range / 2, (least.spread, robin.spread)
    assert max(least.shares) - min(least.shares) > 2, "counts differ, because requests do"


def test_random_two_is_in_between(runs: dict[str, Measured]) -> None:
    least, random_two, robin = (
        runs[name].spread.range for name in ("least_conn", "random_two", "round_robin")
    )
    assert least < random_two < robin


def test_least_conn_shortens_the_tail(
    runs: dict[str, Measured], module_proxy: Proxy, measured: Callable[..., None]
) -> None:
    for name, run in runs.items():
        measured(
            "P99 of whole answers (s) and busiest minus idlest server, four slots a server at 80 % load",
            module_proxy,
            **{f"{name}_P99": round(run.p99_s * SPEED, 1), f"{name}_spread": round(run.spread.range, 2)},
        )
    assert runs["least_conn"].p99_s <= 0.85 * runs["round_robin"].p99_s, {
        name: round(measured.p99_s * SPEED, 1) for name, measured in runs.items()
    }
