"""Nothing is paid twice: what reached a server is not sent again unless the fleet says so."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from integration.fleets import Proxy, chat
from lbgen.fleet.load import load as load_fleet
from lbgen.fleet.source import Source
from lbgen.lab import load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from integration.conftest import Start
    from lbgen.lab.boxes import MockBox

REQUESTS = 8
ATTEMPTS = 2


NOTHING: Mapping[str, Any] = {}


class Case(NamedTuple):
    """A fault on every server, and what clients get for it."""

    fault: str
    statuses: tuple[int | None, ...]
    """What a client may see; None: an answer that breaks off."""
    pool: Mapping[str, Any] = NOTHING
    fields: Mapping[str, Any] = NOTHING

    def __str__(self) -> str:
        return "-".join([self.fault, *map(str, self.fields.values())])


SHORT = {"timeouts": {"first_byte": "1s", "idle": "1s"}}

# By default nothing but a refused connection moves on to another server.
BY_DEFAULT = (
    Case("reset", (502, 503)),
    Case("close", (502, 503)),
    Case("garbage", (502, None)),  # NGINX 1.22 takes such bytes for an HTTP/0.9 answer and passes them on
    Case("hang", (504,), SHORT),
    Case("reset_after_headers", (200, 502, None)),
    Case("half", (200, None)),
    Case("half_close", (200, None)),
    Case("status", (503,), fields={"status": 503}),
    Case("status", (429,), fields={"status": 429}),
    Case("status", (500,), fields={"status": 500}),
)


@pytest.mark.parametrize("case", BY_DEFAULT, ids=str)
def test_nothing_is_replayed_by_default(case: Case, proxy: Proxy, mocks: list[MockBox], start: Start) -> None:
    for mock in mocks:
        mock.fault(case.fault, **case.fields)
    with start(chat(**case.pool), proxy) as balancer:
        results = asyncio.run(load.burst(balancer.url, [load.Planned(0, 8)] * REQUESTS))
    assert not [result for result in results if result.ok], results
    assert {result.status for result in results} <= set(case.statuses), results
    assert seen(mocks) == REQUESTS


def test_a_refused_connection_moves_on(proxy: Proxy, mocks: list[MockBox], start: Start) -> None:
    with start(chat("round_robin"), proxy) as balancer:
        mocks[0].crash()
        planned = [load.Planned(index * 0.02, 8) for index in range(REQUESTS)]
        results = asyncio.run(load.run(balancer.url, planned, most_late_s=0.5))
    assert all(result.ok for result in results), results
    assert seen(mocks[1:]) == REQUESTS


def widened(*reasons: str, **pool: Any) -> dict[str, Any]:
    """Return a fleet that tries twice more for these reasons, generations included."""
    retry = {"attempts": ATTEMPTS, "on": ["connect", *reasons], "replay_posts": True}
    return chat("round_robin", retry=retry, **pool)


class Widened(NamedTuple):
    """A reason in `retry.on` and the fault that is one."""

    reason: str
    fault: str
    pool: Mapping[str, Any] = NOTHING

    def __str__(self) -> str:
        return self.reason


@pytest.mark.parametrize(
    "case", [Widened("reset", "close"), Widened("timeout", "hang", SHORT), Widened("503", "status")], ids=str
)
def test_at_most_the_stated_number_of_further_tries(
    case: Widened, proxy: Proxy, mocks: list[MockBox], start: Start
) -> None:
    fleet = widened(case.reason, **case.pool)
    assert "retry-pays-twice" in said(fleet, proxy)
    for mock in mocks:
        mock.fault(case.fault)
    with start(fleet, proxy) as balancer:
        results = asyncio.run(load.burst(balancer.url, [load.Planned(0, 8)]))
    assert not results[0].ok
    assert 2 <= seen(mocks) <= 1 + ATTEMPTS


def test_what_nginx_does_not_tell_apart_is_said(proxy: Proxy, mocks: list[MockBox], start: Start) -> None:
    fleet = widened("503")
    told = "also replays a POST after a reset" in said(fleet, proxy)
    assert told is (proxy.target == "nginx")
    for mock in mocks:
        mock.fault("close")
    with start(fleet, proxy) as balancer:
        asyncio.run(load.burst(balancer.url, [load.Planned(0, 8)]))
    assert (seen(mocks) > 1) is told
    assert seen(mocks) <= 1 + ATTEMPTS


def test_what_haproxy_cannot_send_again_is_said(proxy: Proxy, mocks: list[MockBox], start: Start) -> None:
    fleet = widened("reset")
    told = "'retry.replay_posts' covers" in said(fleet, proxy)
    assert told is (proxy.target == "haproxy")
    for mock in mocks:
        mock.fault("close")
    with start(fleet, proxy) as balancer:
        asyncio.run(load.burst(balancer.url, [load.Planned(0, 8, "long " * 8_000)]))
    assert (seen(mocks) == 1) is told
    assert seen(mocks) <= 1 + ATTEMPTS


def test_a_stated_retry_saves_the_request(proxy: Proxy, mocks: list[MockBox], start: Start) -> None:
    mocks[0].fault("close")
    with start(widened("reset"), proxy) as balancer:
        results = asyncio.run(load.burst(balancer.url, [load.Planned(0, 8)] * REQUESTS))
    assert all(result.ok for result in results), results


def seen(mocks: list[MockBox]) -> int:
    """Return how many generations reached a server."""
    return sum(mock.state()["paths"].get("/v1/completions", 0) for mock in mocks)


def said(fleet: dict[str, Any], proxy: Proxy) -> str:
    """Return what the check of a fleet says, codes and messages."""
    versions = {proxy.target: proxy.version}
    source = Source("fleet.yaml", json.dumps(fleet))
    problems = load_fleet([source], environ={}, targets=(proxy.target,), versions=versions).problems
    return "\n".join(f"{problem.code}: {problem.message}" for problem in problems)
