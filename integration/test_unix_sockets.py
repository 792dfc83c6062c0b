"""Servers at Unix sockets: here the balancer's own, which leads to a mock GPU server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from integration.edge import Ask, send
from integration.waiting import eventually

if TYPE_CHECKING:
    from integration.conftest import Start
    from integration.fleets import Proxy
    from lbgen.lab.boxes import Balancer

SOCKET, NOBODY = "/tmp/lb.sock", "/tmp/nobody.sock"
RAW = {
    "nginx": {"server": [f"listen unix:{SOCKET};"]},
    "haproxy": {"frontend": [f"bind {SOCKET} mode 666"]},
}


def fleet(proxy: Proxy) -> dict[str, Any]:
    """Return a fleet whose requests below /over come in twice."""
    return {
        "pools": {
            "main": {"engine": "vllm", "servers": ["gpu-0:8000"]},
            "over": {
                "engine": "http",
                "servers": [f"unix:{NOBODY}", f"unix:{SOCKET}"],
                "strategy": "round_robin",
                "health": False,
                "passive_health": False,
            },
        },
        "listeners": {
            "all": {
                "bind": "8080",
                "routes": [{"path": "/over", "strip_prefix": True, "pool": "over"}, {"pool": "main"}],
            }
        },
        "targets": {proxy.target: {"version": proxy.version, "raw": RAW[proxy.target]}},
    }


def logged(balancer: Balancer, paths: list[str]) -> list[dict[str, Any]]:
    """Return the lines of the access log with these paths.

    One may be missing: HAProxy gives up a line for standard output that another thread keeps it from writing.
    """
    found: list[dict[str, Any]] = []

    def look() -> bool:
        lines = [line for line in balancer.logs().splitlines() if line.startswith("{")]
        found[:] = [entry for entry in map(json.loads, lines) if entry["path"] in paths]
        return len(found) >= len(paths) - 1

    eventually(look, 10, f"lines of the log for {paths}")
    return found


@pytest.mark.usefixtures("mocks")
def test_requests_go_to_a_socket_past_one_where_nobody_listens(proxy: Proxy, start: Start) -> None:
    with start(fleet(proxy), proxy) as balancer:
        got = [send(balancer.address, 8080, Ask(f"/over/v1/{number}")) for number in range(4)]
        entries = logged(balancer, [f"/over/v1/{number}" for number in range(4)])
    assert [(one.status, one.server) for one in got] == [(200, "gpu-0")] * 4
    assert [one.seen["target"] for one in got] == [f"/v1/{number}" for number in range(4)]
    assert {entry["server"] for entry in entries} == {"tmp-lb"}
    assert sum(entry["retries"] for entry in entries) >= 1
