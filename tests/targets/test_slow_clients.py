"""Clients that hold connections and say nothing: they take no place at a server, and not for long."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from integration.waiting import eventually
from tests.targets.site import TARGETS, Site, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from integration.envoy_site import MockServer

BEGUN = (
    b"",
    b"GET /v1 HTTP/1.1\r\nHost: site.org\r\nX-Long: ",
    b"POST /v1 HTTP/1.1\r\nHost: site.org\r\nContent-Length: 100\r\n\r\n{",
    b"POST /v1 HTTP/1.1\r\nHost: site.org\r\nX-Api-Key: sk-wrong\r\nContent-Length: 100\r\n\r\n{",
)
MOST = 100
"""Connections of clients, where a target bounds them."""


def fleet(target: str, ports: Mapping[str, int], servers: Mapping[str, MockServer]) -> dict[str, Any]:
    times = {"header": "2s", "body": "2s", "keepalive": "2s"}
    bounds = {} if target == "nginx" else {"max_connections": MOST}
    return {
        "pools": {"a": {"engine": "vllm", "health": False, "servers": [f"127.0.0.1:{servers['a'].port}"],
                        "timeouts": {"idle": "2s", "first_byte": "2s"}}},
        "clients": {"one": {"key": "env:ONE"}},
        "listeners": {"door": {"bind": f"127.0.0.1:{ports['door']}", "auth": {"clients": "all"},
                               "timeouts": times, "routes": [{"pool": "a"}]}},
        "targets": {target: bounds},
    }  # fmt: skip


@pytest.fixture(params=TARGETS)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / request.param
    for parent in (folder.parent, folder.parent.parent):
        parent.chmod(0o755)
    made = partial(fleet, request.param)
    try:
        with running(request.param, made, (("door",), ("a",)), {"ONE": "sk-one"}, folder) as one:
            yield one
    except LookupError as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("begun", BEGUN, ids=["nothing", "header", "body", "wrong-key"])
def test_silent_clients_keep_nobody_out_for_long(site: Site, begun: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(2 * MOST):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", site.ports["door"]), 10))
            one.sendall(begun)

        def served() -> bool:
            try:
                return site.ask("door", "/v1", headers={"X-Api-Key": "sk-one"}).status == 200
            except OSError:
                return False

        eventually(served, 20, "somebody with a key is served")
    assert len(site.servers["a"].seen) == 1


def test_more_connections_than_there_may_be_are_closed(site: Site) -> None:
    if site.target != "envoy":
        return  # on HAProxy they wait, on NGINX an idle one is closed for them
    with ExitStack() as stack:
        doors = [
            stack.enter_context(socket.create_connection(("127.0.0.1", site.ports["door"]), 10))
            for _ in range(MOST + 20)
        ]
        for door in doors:
            door.settimeout(0.5)
        asked = b"GET /lb/live HTTP/1.1\r\nHost: site.org\r\n\r\n"
        assert MOST - 5 <= sum(answered(door, asked) for door in doors) <= MOST


def answered(door: socket.socket, asked: bytes) -> bool:
    try:
        door.sendall(asked)
        return bool(door.recv(12))
    except OSError:
        return False
