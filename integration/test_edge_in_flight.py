"""Limits: how many requests at the same time for a client, an address, and in all; Envoy refuses those."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from integration.edge import Ask, send
from integration.test_edge_limits import forged, listener
from integration.waiting import eventually
from lbgen.lab.boxes import fetch

if TYPE_CHECKING:
    from integration.edge import Edge, Got
    from lbgen.lab.boxes import Balancer, MockBox

BUSY_IP, BUSY_ALL, OF_CLIENT = range(8080, 8083)
SECRETS = {"ONE": "sk-one", "NARROW": "sk-narrow"}
FLEET: dict[str, Any] = {
    "pools": {"main": {"engine": "vllm", "servers": ["gpu-0:8000"]}},
    "clients": {"one": {"key": "env:ONE"}, "narrow": {"key": "env:NARROW", "max_in_flight": 2}},
    "listeners": {
        "busy-ip": listener(BUSY_IP, {"concurrent": 2, "per": "ip"}),
        "busy-all": listener(BUSY_ALL, {"concurrent": 2, "per": "total"}),
        "of-client": listener(OF_CLIENT, keys=True),
    },
}


def key(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRETS[name]}"}


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
