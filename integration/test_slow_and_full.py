"""Slow is not dead, and full is not broken."""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from integration.fleets import SERVERS, THREE, Proxy, chat, on_queueing
from lbgen.lab import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration.conftest import Start
    from lbgen.lab.boxes import MockBox

TRIES = THREE
QUICK = {"x-mock-pace": "0.01,0"}

THREADS = len(os.sched_getaffinity(0))
"""HAProxy's, by default. Each looks at the queue's length for itself, and then adds to it."""


def served_by(url: str, count: int = 40) -> set[str | None]:
    """Return who answers a number of quick requests."""
    planned = [load.Planned(index * 0.01, 1, headers=QUICK) for index in range(count)]
    results = asyncio.run(load.run(url, planned, most_late_s=0.5))
    assert all(result.ok for result in results), results
    return {result.server for result in results}


@pytest.mark.usefixtures("mocks")
def test_slow_is_not_dead(proxy: Proxy, start: Start) -> None:
    slow = load.Planned(0, 1, stream=False, headers={"x-mock-pace": "3,0"})
    with start(chat(), proxy) as balancer:
        results = asyncio.run(load.burst(balancer.url, [slow] * 200))
        assert all(result.status == 200 for result in results), results
        assert served_by(balancer.url) == set(SERVERS)


@pytest.mark.parametrize("status", [500, 429, 503])
def test_an_answered_error_ejects_nobody(
    status: int, proxy: Proxy, mocks: list[MockBox], start: Start
) -> None:
    with start(chat("round_robin"), proxy) as balancer:
        for mock in mocks:
            mock.fault("status", status=status)
        results = asyncio.run(load.burst(balancer.url, [load.Planned(0, 1)] * 80))
        assert {result.status for result in results} == {status}
        for mock in mocks:
            mock.heal()
        assert served_by(balancer.url) == set(SERVERS)


@pytest.mark.usefixtures("mocks")
def test_full_answers_in_form_and_recovers(proxy: Proxy, start: Start, measured: Callable[..., None]) -> None:
    fleet = chat(max_in_flight=1, queue={"size": 4, "timeout": "10s"})
    held = load.Planned(0, 1, headers={"x-mock-pace": "1,0"})
    with start(fleet, proxy) as balancer:
        results = asyncio.run(load.burst(balancer.url, [held] * 16))
        served = [result for result in results if result.ok]
        refused = [result for result in results if not result.ok]
        assert len(served) in (range(8, 8 + THREADS) if proxy.target == "haproxy" else range(4, 5)), results
        measured(
            "16 requests to four servers that take one each, with a queue for four", proxy,
            served=len(served), refused=len(refused), with_status=refused[0].status,
            refused_within_ms=round(max(result.ended_s for result in refused) * 1000),
        )  # fmt: skip
        for result in refused:
            assert_refused_in_form(result)
            assert result.ended_s < 1, "the refusal comes at once"
        assert served_by(balancer.url, 4), "the fleet recovers by itself"


@on_queueing
@pytest.mark.usefixtures("mocks")
def test_the_queue_ends_with_its_timeout(proxy: Proxy, start: Start) -> None:
    fleet = chat(max_in_flight=1, queue={"size": 100, "timeout": "1s"})
    held = load.Planned(0, 1, headers={"x-mock-pace": "2.5,0"})
    with start(fleet, proxy) as balancer:
        begin = time.monotonic()
        results = asyncio.run(load.burst(balancer.url, [held] * 8))
        assert time.monotonic() - begin < 6
    refused = [result for result in results if not result.ok]
    assert len(refused) == 4, results
    for result in refused:
        assert result.status == 503
        assert 0.9 <= result.ended_s <= 2, "it waited as long as the queue's timeout"
        assert_refused_in_form(result)


def assert_refused_in_form(result: load.Result) -> None:
    """Check that the balancer's own answer is an OpenAI error with a time to come back."""
    assert result.status in {429, 503}, result
    assert "retry-after" in result.headers, dict(result.headers)
    assert result.headers["content-type"].startswith("application/json")
    error = json.loads(result.tail)["error"]
    assert error["message"]
    assert error["type"]
