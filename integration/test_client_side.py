"""How long clients may take, and uploads that servers see while they come."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from integration.fleets import chat
from integration.raw_server import Noting, heard_after

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.conftest import Start
    from integration.fleets import Proxy
    from lbgen.lab.boxes import Balancer
    from lbgen.lab.rig import Rig

PORT, MODELS = 8080, 8081
FOREVER = float("inf")


def fleet(timeouts: dict[str, str]) -> dict[str, Any]:
    """Return a fleet whose clients have these times; one of its listeners looks into bodies."""
    made = chat(models=["m"])
    common = {"timeouts": timeouts, "auth": "none"}
    made["listeners"] = {
        "plain": {"bind": str(PORT), **common, "routes": [{"pool": "chat"}]},
        "models": {"bind": str(MODELS), **common, "routes": [{"model": "m", "pool": "chat"}]},
    }
    return made


def connected(balancer: Balancer, port: int = PORT) -> socket.socket:
    return socket.create_connection((balancer.address, port), timeout=10)


@pytest.mark.usefixtures("mocks")
def test_idle_connections_stay_as_long_as_said(proxy: Proxy, start: Start) -> None:
    for time_s, patience in ((2, 6.0), (9, 5.0)):
        with start(fleet({"keepalive": f"{time_s}s"}), proxy) as balancer, connected(balancer) as client:
            client.sendall(b"GET /lb/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
            waited, _ = heard_after(client, patience)
            assert waited == FOREVER if time_s > patience else 1 <= waited <= 4


@pytest.mark.usefixtures("mocks")
def test_headers_take_no_longer_than_said(proxy: Proxy, start: Start) -> None:
    with start(fleet({"header": "2s"}), proxy) as balancer, connected(balancer) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        waited, _ = heard_after(client, 8)
        assert 1 <= waited <= 5


@pytest.mark.usefixtures("mocks")
def test_a_body_may_pause_as_long_as_said(proxy: Proxy, start: Start) -> None:
    # HAProxy bounds what it waits for, NGINX every body.
    ports = (PORT, MODELS) if proxy.target == "nginx" else (MODELS,)
    with start(fleet({"body": "2s"}), proxy) as balancer:
        for port in ports:
            with connected(balancer, port) as client:
                head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n"
                client.sendall(head + b'{"model": "m"')
                waited, said = heard_after(client, 8)
            assert 1 <= waited <= 5
            assert not said or b" 408 " in said.partition(b"\r\n")[0]


@pytest.fixture
def noting(rig: Rig) -> Iterator[Noting]:
    with Noting(rig.gateway) as server:
        yield server


def upload(balancer: Balancer, server: Noting, head: bytes, pieces: list[bytes]) -> float:
    """Send a request in pieces, half a second apart; return how many seconds before its end it was seen."""
    server.arrived.clear()
    with connected(balancer) as client:
        client.sendall(b"POST /upload HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n")
        for piece in pieces:
            client.sendall(piece)
            sent = time.monotonic()
            time.sleep(0.5)
        assert client.recv(65536).startswith(b"HTTP/1.1 200"), balancer.logs()
    return sent - server.arrived[0][0]


PIECES = [b"x" * 200_000] * 4
LENGTH = f"Content-Length: {sum(map(len, PIECES))}\r\n".encode()
CHUNKED = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in PIECES] + [b"0\r\n\r\n"]


@pytest.mark.parametrize(("head", "pieces"), [(LENGTH, PIECES), (b"Transfer-Encoding: chunked\r\n", CHUNKED)])
def test_an_upload_is_seen_while_it_comes(
    proxy: Proxy, start: Start, noting: Noting, head: bytes, pieces: list[bytes]
) -> None:
    pool = {"engine": "http", "servers": [noting.address], "request_buffering": False, "health": False}
    with start({"pools": {"uploads": pool}}, proxy) as balancer:
        assert upload(balancer, noting, head, pieces) > 1
    assert noting.arrived[-1][1] >= sum(map(len, PIECES))


def test_a_request_is_handed_over_whole_where_said(proxy: Proxy, start: Start, noting: Noting) -> None:
    pool = {"engine": "http", "servers": [noting.address], "request_buffering": True, "health": False}
    small = [b"x" * 1_000] * 4
    head = f"Content-Length: {sum(map(len, small))}\r\n".encode()
    with start({"pools": {"whole": pool}}, proxy) as balancer:
        assert upload(balancer, noting, head, small) < 0.4
