"""Nothing is paid twice: what reached a server is not sent again unless the fleet says so."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from integration.conftest import renewed
from integration.fleets import THREE, Proxy, chat
from lbgen.fleet.load import load as load_fleet
from lbgen.fleet.text.source import Source
from lbgen.lab import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from integration.conftest import Start
    from lbgen.lab.boxes import MockBox

TRIES = THREE

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
        return "-".join([self.fault.replace("_", "-"), *map(str, self.fields.values())])


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


class Widened(NamedTuple):
    """A reason in `retry.on` and the fault that is one."""

    reason: str
    fault: str
    pool: Mapping[str, Any] = NOTHING

    def __str__(self) -> str:
        return f"further-{self.reason}"


WIDENED = (Widened("reset", "close"), Widened("timeout", "hang", SHORT), Widened("503", "status"))


def widened(*reasons: str, **pool: Any) -> dict[str, Any]:
    """Return a pool that tries twice more for these reasons, generations included."""
    retry = {"attempts": ATTEMPTS, "on": ["connect", *reasons], "replay_posts": True}
    return {"strategy": "round_robin", "retry": retry, **pool}


POOLS: dict[str, dict[str, Any]] = {
    **{str(case): dict(case.pool) for case in BY_DEFAULT},
    **{str(case): widened(case.reason, **case.pool) for case in WIDENED},
    "refused": {"strategy": "round_robin"},
    "not-told-apart": widened("503"),
    "long": widened("reset"),
    "saved": widened("reset"),
}
"""One for each test, as what failed in a pool is remembered there; each under the path of its name."""


class Running(NamedTuple):
    """A balancer with all pools."""

    proxy: Proxy
    url: str

    def burst(self, pool: str, *planned: load.Planned) -> list[load.Result]:
        """Send requests to a pool at the same time."""
        return asyncio.run(load.burst(f"{self.url}/{pool}", list(planned)))


@pytest.fixture(scope="module")
def running(module_proxy: Proxy, running_mocks: list[MockBox], start: Start) -> Iterator[Running]:
    """One container for all tests of a balancer."""
    renewed(running_mocks)
    with start(fleet(POOLS), module_proxy) as balancer:
        yield Running(module_proxy, balancer.url)


def fleet(pools: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a fleet with some pools of the four servers."""
    routes = [{"path": f"/{name}", "pool": name, "strip_prefix": True} for name in pools]
    return {
        "pools": {name: {**chat()["pools"]["chat"], **pool} for name, pool in pools.items()},
        "listeners": {"default": {"bind": "*:8080", "routes": routes}},
    }


@pytest.mark.parametrize("case", BY_DEFAULT, ids=str)
def test_nothing_is_replayed_by_default(case: Case, running: Running, mocks: list[MockBox]) -> None:
    for mock in mocks:
        mock.fault(case.fault, **case.fields)
    results = running.burst(str(case), *[load.Planned(0, 8)] * REQUESTS)
    assert not [result for result in results if result.ok], results
    assert {result.status for result in results} <= set(case.statuses), results
    assert seen(mocks) == REQUESTS


def test_a_refused_connection_moves_on(running: Running, mocks: list[MockBox]) -> None:
    mocks[0].crash()
    planned = [load.Planned(index * 0.02, 8) for index in range(REQUESTS)]
    results = asyncio.run(load.run(f"{running.url}/refused", planned, most_late_s=0.5))
    assert all(result.ok for result in results), results
    assert seen(mocks[1:]) == REQUESTS


@pytest.mark.parametrize("case", WIDENED, ids=str)
def test_at_most_the_stated_number_of_further_tries(
    case: Widened, running: Running, mocks: list[MockBox]
) -> None:
    assert "retry-pays-twice" in said(str(case), running.proxy)
    for mock in mocks:
        mock.fault(case.fault)
    [result] = running.burst(str(case), load.Planned(0, 8))
    assert not result.ok
    assert 2 <= seen(mocks) <= 1 + ATTEMPTS


def test_what_nginx_does_not_tell_apart_is_said(running: Running, mocks: list[MockBox]) -> None:
    told = "also replays a POST after a reset" in said("not-told-apart", running.proxy)
    assert told is (running.proxy.target == "nginx")
    for mock in mocks:
        mock.fault("close")
    running.burst("not-told-apart", load.Planned(0, 8))
    assert (seen(mocks) > 1) is told
    assert seen(mocks) <= 1 + ATTEMPTS


def test_what_cannot_be_sent_again_is_said(running: Running, mocks: list[MockBox]) -> None:
    told = "'retry.replay_posts' covers" in said("long", running.proxy)
    assert told is (running.proxy.target != "nginx")
    for mock in mocks:
        mock.fault("close")
    running.burst("long", load.Planned(0, 8, "long " * 300_000))  # more than Envoy holds, too
    assert (seen(mocks) == 1) is told
    assert seen(mocks) <= 1 + ATTEMPTS


def test_a_stated_retry_saves_the_request(running: Running, mocks: list[MockBox]) -> None:
    mocks[0].fault("close")
    results = running.burst("saved", *[load.Planned(0, 8)] * REQUESTS)
    assert all(result.ok for result in results), results


def seen(mocks: list[MockBox]) -> int:
    """Return how many generations reached a server."""
    return sum(mock.state()["paths"].get("/v1/completions", 0) for mock in mocks)


def said(pool: str, proxy: Proxy) -> str:
    """Return what the check of a fleet with one of the pools says, codes and messages."""
    versions = {proxy.target: proxy.version}
    source = Source("fleet.yaml", json.dumps(fleet({pool: POOLS[pool]})))
    problems = load_fleet([source], environ={}, targets=(proxy.target,), versions=versions).problems
    return "\n".join(f"{problem.code}: {problem.message}" for problem in problems)
