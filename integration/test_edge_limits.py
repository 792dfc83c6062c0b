"""Limits: how many requests, and how many at the same time, for a client, an address, and in all."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from integration.edge import Ask, send
from integration.waiting import eventually
from lbgen.lab.boxes import fetch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from integration.edge import Edge, Got
    from lbgen.lab.boxes import Balancer, MockBox

OPEN, BY_IP, BY_CLIENT, IN_ALL, BUSY_IP, BUSY_ALL, TRUSTED, OF_CLIENT = range(8080, 8088)
SECRETS = {"ONE": "sk-one", "TWO": "sk-two", "RATED": "sk-rated", "NARROW": "sk-narrow"}
MAIN = [{"pool": "main"}]
SLOW = {"rate": "6/m", "burst": 2}
"""Three at once, and the next after ten seconds on NGINX, after half a minute on HAProxy."""


def listener(port: int, *limits: dict[str, Any], keys: bool = False, **fields: Any) -> dict[str, Any]:
    clients = {"clients": "all"} if keys else "none"
    return {"bind": str(port), "auth": clients, "limits": list(limits), "routes": MAIN, **fields}


FLEET: dict[str, Any] = {
    "pools": {"main": {"engine": "vllm", "servers": ["gpu-0:8000"]}},
    "clients": {
        "one": {"key": "env:ONE"},
        "two": {"key": "env:TWO"},
        "rated": {"key": "env:RATED", **SLOW},
        "narrow": {"key": "env:NARROW", "max_in_flight": 2},
    },
    "listeners": {
        "open": listener(OPEN),
        "by-ip": listener(BY_IP, {**SLOW, "per": "ip"}),
        "by-client": listener(BY_CLIENT, {**SLOW, "per": "client"}, keys=True),
        "in-all": listener(IN_ALL, {**SLOW, "per": "total"}, keys=True),
        "busy-ip": listener(BUSY_IP, {"concurrent": 2, "per": "ip"}),
        "busy-all": listener(BUSY_ALL, {"concurrent": 2, "per": "total"}),
        "trusted": listener(TRUSTED, {**SLOW, "per": "ip"}, trusted_proxies=["10.0.0.0/8"]),
        "of-client": listener(OF_CLIENT, keys=True),
    },
}
ALLOWED = 3


def key(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRETS[name]}"}


def statuses(balancer: Balancer, port: int, asks: Sequence[Ask]) -> list[int]:
    return [send(balancer.address, port, ask).status for ask in asks]


def forged(number: int) -> dict[str, str]:
    address = f"192.0.2.{number}"
    return {"X-Forwarded-For": address, "X-Real-IP": address, "Forwarded": f"for={address}"}


def test_a_rate_per_address_holds_whatever_a_client_claims(edge: Edge) -> None:
    asks = [Ask("/", headers=forged(number)) for number in range(6)]
    for balancer in edge.balancers.values():
        assert statuses(balancer, BY_IP, asks) == [200] * ALLOWED + [429] * 3
    got = edge.same(Ask("/"), BY_IP)
    assert (got.code, got.headers["retry-after"], got.server) == ("rate_limit_exceeded", "1", "")


def test_probes_are_not_limited(edge: Edge) -> None:
    for balancer in edge.balancers.values():
        assert statuses(balancer, BY_IP, [Ask("/lb/live")] * 6) == [200] * 6


def test_a_rate_per_client_is_each_ones_own(edge: Edge) -> None:
    for balancer in edge.balancers.values():
        for name in ("ONE", "TWO"):
            found = statuses(balancer, BY_CLIENT, [Ask("/", headers=key(name))] * 5)
            assert found == [200] * ALLOWED + [429] * 2
    assert edge.same(Ask("/", headers={"Authorization": "Bearer none"}), BY_CLIENT).status == 401


def test_a_rate_in_all_is_shared(edge: Edge) -> None:
    asks = [Ask("/", headers=key(name)) for name in ("ONE", "TWO", "ONE", "TWO", "ONE")]
    for balancer in edge.balancers.values():
        assert statuses(balancer, IN_ALL, asks) == [200] * ALLOWED + [429] * 2


def test_a_clients_own_rate_holds_for_it_alone(edge: Edge) -> None:
    for balancer in edge.balancers.values():
        assert statuses(balancer, OF_CLIENT, [Ask("/", headers=key("RATED"))] * 5) == [200] * 3 + [429] * 2
        assert statuses(balancer, OF_CLIENT, [Ask("/", headers=key("ONE"))] * 5) == [200] * 5


def test_a_trusted_proxys_word_counts(edge: Edge) -> None:
    """Addresses of the test are trusted there: each named client has a rate of its own."""
    for balancer in edge.balancers.values():
        asks = [Ask("/", headers=forged(number)) for number in range(6)]
        assert statuses(balancer, TRUSTED, asks) == [200] * 6
        assert statuses(balancer, TRUSTED, [Ask("/", headers=forged(99))] * 4) == [200] * 3 + [429]
    # The nearest address that is not a trusted proxy's, not what a client wrote before it.
    chain = {"X-Forwarded-For": "192.0.2.200, 192.0.2.201, 10.9.9.9"}
    assert edge.same(Ask("/", headers=chain), TRUSTED).sent("x-forwarded-for") == "192.0.2.201"


BODY = json.dumps({"prompt": "hi", "max_tokens": 1}).encode()


def hold(balancer: Balancer, port: int, **headers: str) -> int:
    """Keep a request in flight for 1.5 s; return its status."""
    headers = {"x-mock-pace": "1.5,0", "Content-Type": "application/json", **headers}
    return fetch(f"http://{balancer.address}:{port}/v1/completions", "POST", BODY, 20, **headers).status


def beside_two(mocks: list[MockBox], balancer: Balancer, port: int, **headers: str) -> Got:
    """Return what a request gets beside two that are in flight, and see that it gets in after them."""
    ask = Ask("/", headers=headers)
    with ThreadPoolExecutor() as threads:
        held = [threads.submit(hold, balancer, port, **headers) for _ in range(2)]
        eventually(lambda: sum(mock.state()["in_flight"] for mock in mocks) == 2, 5, "two are in flight")
        refused = send(balancer.address, port, ask)
        assert [future.result() for future in held] == [200, 200]
    eventually(lambda: send(balancer.address, port, ask).status == 200, 2, "there is room again")
    return refused


def test_requests_in_flight_are_bounded(edge: Edge, running_mocks: list[MockBox]) -> None:
    for balancer in edge.balancers.values():
        for port in (BUSY_IP, BUSY_ALL):
            refused = beside_two(running_mocks, balancer, port, **forged(1))
            assert (refused.status, refused.code) == (429, "rate_limit_exceeded")
            assert refused.headers["retry-after"] == "1"


def test_a_clients_requests_in_flight_are_bounded(edge: Edge, running_mocks: list[MockBox]) -> None:
    for balancer in edge.balancers.values():
        assert beside_two(running_mocks, balancer, OF_CLIENT, **key("NARROW")).status == 429
