"""Predictions for agents against what was measured on HAProxy 2.6.12, NGINX 1.22.1 and sglang-router 0.3.2.

Measured on loopback in front of four mock servers: 64 sessions of 12 turns, one system prompt of 4,500
tokens, thinking 3 s, prefix caches of 384k tokens and 10,000 prompt tokens/s each; docs/simulation.md has
the whole table.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from lbgen.simulate.load.named import workload
from lbgen.simulate.runs.result import Figures, combined
from lbgen.simulate.runs.run import Task, run
from lbgen.simulate.servers.step_times.profiles import PROFILES
from tests.simulate.runs import setup

SEEDS = (1, 2)
POINTS, SHARE = 0.03, 0.15


class Measured(NamedTuple):
    """A row of the bench."""

    strategy: str
    target: str | None
    hits: float
    makespan_s: float
    busiest: float | None = None
    """Share of the requests of the server that had most, where that was told."""


ROWS = (
    Measured("session", "nginx", 0.889, 98),
    Measured("session", "haproxy", 0.84, 102),
    Measured("least_conn", "haproxy", 0.57, 163),
    Measured("sglang-cache-aware", None, 0.39, 734, 1.0),
)


def predicted(strategy: str, target: str | None, load: str = "agents", requests: int = 768) -> list[Figures]:
    """One run for each seed."""
    made = workload(load)
    servers = setup(
        strategy, profile=PROFILES["plain-prompts"], target=target, chunk_tokens=made.chunk_tokens
    )
    return [run(Task(servers, made, 5.0, requests, seed)) for seed in SEEDS]


@pytest.fixture(scope="module")
def found() -> dict[Measured, list[Figures]]:
    return {row: predicted(row.strategy, row.target) for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.strategy}-{row.target}")
def test_hits_and_makespan_are_near_the_measured_ones(
    row: Measured, found: dict[Measured, list[Figures]]
) -> None:
    whole = combined(found[row])
    assert whole.prefix_hit_ratio == pytest.approx(row.hits, abs=POINTS)
    assert whole.duration_s / len(SEEDS) == pytest.approx(row.makespan_s, rel=SHARE)
    if row.busiest is not None:
        assert max(one.requests for one in whole.servers) / whole.requests == row.busiest


def test_the_order_is_the_measured_one_with_every_seed(found: dict[Measured, list[Figures]]) -> None:
    for index in range(len(SEEDS)):
        makespans = [found[row][index].duration_s for row in ROWS]
        assert makespans == sorted(makespans)
        late = [found[row][index].ttft_s.p99 or 0.0 for row in ROWS]
        assert late == sorted(late)


@pytest.mark.parametrize(
    ("load", "strategy", "hits"),
    [
        ("tenants:skew=1.2", "prefix", 0.764),
        ("tenants:skew=1.2", "least_conn", 0.570),
        ("tenants:hot=0.8", "prefix", 0.757),
        ("tenants:hot=0.8", "least_conn", 0.687),
    ],
)
def test_small_caches_hold_what_was_measured_of_prompts(load: str, strategy: str, hits: float) -> None:
    """Measured on HAProxy 3.0.11 with caches of 10,000 tokens, 40 requests a second, 1,600 of them."""
    made = workload(load)
    profile = PROFILES["plain-prompts"]._replace(kv_tokens=10_000, cache_tokens=None)
    servers = setup(strategy, profile=profile, target="haproxy", chunk_tokens=made.chunk_tokens)
    whole = combined([run(Task(servers, made, 40.0, 1600, seed)) for seed in (0, 1)])
    assert whole.prefix_hit_ratio == pytest.approx(hits, abs=POINTS)


def test_cache_aware_spreads_tenants_whose_prompts_differ() -> None:
    """Where no prompt is shared by all, its trees grow alike."""
    whole = combined(predicted("sglang-cache-aware", None, "tenants", 3000))
    assert max(one.requests for one in whole.servers) / whole.requests < 0.35
    assert (whole.prefix_hit_ratio or 0) > 0.75


def test_cache_aware_relieves_a_server_that_is_far_ahead() -> None:
    """With more than 64 requests ahead of the idlest the shortest queue decides."""
    few, many = (
        max(one.requests for one in combined(predicted("sglang-cache-aware", None, load, count)).servers)
        / (count * len(SEEDS))
        for load, count in (("agents:sessions=64,turns=2", 128), ("agents:sessions=160,turns=2", 320))
    )
    assert few == 1.0
    assert many < 0.7
