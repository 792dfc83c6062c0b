"""Probes: live says that the balancer runs, ready follows the servers of the routed pools."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from integration.edge import Ask, send
from integration.waiting import eventually

if TYPE_CHECKING:
    from integration.edge import Edge
    from lbgen.lab.boxes import Balancer, MockBox

ANY, ALL = 8080, 8081
QUICK = {"health": {"interval": "500ms", "timeout": "500ms", "rise": 1, "fall": 1}}
BOTH = [{"path": "/a", "pool": "one"}, {"pool": "two"}]

FLEET: dict[str, Any] = {
    "pools": {
        "one": {"engine": "vllm", "servers": ["gpu-0:8000"], **QUICK},
        "two": {"engine": "vllm", "servers": ["gpu-1:8000"], **QUICK},
    },
    "listeners": {
        "any": {"bind": str(ANY), "routes": BOTH},
        "all": {"bind": str(ALL), "status": {"when": "all_pools"}, "routes": BOTH},
    },
}


def ready(balancer: Balancer, port: int) -> int:
    return send(balancer.address, port, Ask("/lb/ready")).status


def test_ready_follows_the_pools(edge: Edge, running_mocks: list[MockBox]) -> None:
    for mock in running_mocks[:2]:
        mock.ensure_running()
    boxes = edge.balancers.values()

    def becomes(port: int, status: int) -> None:
        what = f"{port} is {status}"
        eventually(lambda: all(ready(box, port) == status for box in boxes), 10, what)

    becomes(ANY, 200)
    becomes(ALL, 200)
    running_mocks[1].crash()
    try:
        becomes(ALL, 503)
        becomes(ANY, 200)
        running_mocks[0].crash()
        becomes(ANY, 503)
        got = edge.same(Ask("/lb/ready"))
        assert (got.code, got.headers["retry-after"]) == ("service_unavailable", "1")
        live = edge.each(Ask("/lb/live")).values()
        assert [(one.status, json.loads(one.body)["status"]) for one in live] == [(200, "ok")] * 2
        assert edge.same(Ask("/b")).status == 503
    finally:
        for mock in running_mocks[:2]:
            mock.ensure_running()
    becomes(ALL, 200)
    assert edge.same(Ask("/b")).server == "gpu-1"
