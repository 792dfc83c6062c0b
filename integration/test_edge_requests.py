"""What happens to single requests: upgrades, CORS, sizes, ids, and what is logged of them."""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING, Any

import pytest

from integration.edge import HOST, Ask, Got, send
from integration.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from integration.edge import Edge
    from lbgen.lab.boxes import Balancer

PLAIN, SOCKETS, CORS, SMALL, BEHIND, PROXIED, ANY_ORIGIN = range(8080, 8087)
ORIGIN = "https://chat.example.org"
MAIN = [{"pool": "main"}]

FLEET: dict[str, Any] = {
    "pools": {
        "main": {"engine": "vllm", "servers": [{"address": "gpu-0:8000", "name": "first"}]},
        "other": {"engine": "vllm", "servers": ["gpu-1:8000"]},
    },
    "listeners": {
        "plain": {"bind": str(PLAIN), "routes": MAIN},
        "sockets": {
            "bind": str(SOCKETS),
            "websocket": True,
            "routes": [{"path": "/ws", "websocket": True, "pool": "other"}, *MAIN],
        },
        "cors": {"bind": str(CORS), "max_body": "1KiB", "cors": {"origins": [ORIGIN]}, "routes": MAIN},
        "any-origin": {"bind": str(ANY_ORIGIN), "cors": {"origins": ["*"]}, "routes": MAIN},
        "small": {"bind": str(SMALL), "max_body": "1KiB", "routes": MAIN},
        "behind": {
            "bind": str(BEHIND),
            "behind_proxy": True,
            "trusted_proxies": ["10.0.0.0/8"],
            "routes": MAIN,
        },
        "proxied": {
            "bind": str(PROXIED),
            "accept_proxy": True,
            "trusted_proxies": ["10.0.0.0/8"],
            "routes": MAIN,
        },
    },
}


def raw(balancer: Balancer, port: int, data: bytes, until: bytes = b"") -> bytes:
    """Send bytes and return what comes back until the peer closes or says this."""
    with socket.create_connection((balancer.address, port), timeout=10) as peer:
        peer.sendall(data)
        answer = b""
        while not (until and until in answer):
            piece = peer.recv(65_536)
            if not piece:
                break
            answer += piece
    return answer


def handshake(path: str, token: str) -> bytes:
    lines = [
        f"GET {path} HTTP/1.1", f"Host: {HOST}", f"Upgrade: {token}", "Connection: Upgrade",
        "x-mock-echo: {}",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
    ]  # fmt: skip
    return "\r\n".join((*lines, "", "")).encode()


@pytest.mark.parametrize("token", ["websocket", "WebSocket", "WEBSOCKET"])
@pytest.mark.parametrize("path", ["/ws", "/elsewhere"])
def test_a_websocket_goes_through(edge: Edge, path: str, token: str) -> None:
    for balancer in edge.balancers.values():
        with socket.create_connection((balancer.address, SOCKETS), timeout=10) as peer:
            peer.sendall(handshake(path, token))
            head = b""
            while b"\r\n\r\n" not in head:
                head += peer.recv(65_536)
            assert head.startswith(b"HTTP/1.1 101 "), head
            assert re.search(rb"(?mi)^upgrade: websocket\r$", head)
            for frame in (b"\x81\x03abc", b"\x00" * 5_000):
                peer.sendall(frame)
                back = b""
                while len(back) < len(frame):
                    back += peer.recv(65_536)
                assert back == frame


H2C = {
    "Upgrade": "h2c",
    "Connection": "Upgrade, HTTP2-Settings",
    "HTTP2-Settings": "AAMAAABkAAQAoAAAAAIAAAAA",
}


@pytest.mark.parametrize("upgrade", [H2C, {**H2C, "Upgrade": "websocketx"}, {**H2C, "Upgrade": "TLS/1.0"}])
@pytest.mark.parametrize("port", [PLAIN, SOCKETS])
def test_other_upgrades_are_plain_requests(edge: Edge, port: int, upgrade: Mapping[str, str]) -> None:
    for method in ("GET", "POST"):
        for got in edge.each(Ask("/ws", method, upgrade, b"x" if method == "POST" else b""), port).values():
            assert (got.status, got.server) == (200, "gpu-0")
            assert got.sent("upgrade") is None


def test_a_listener_without_websockets_passes_none(edge: Edge) -> None:
    asked = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    got = edge.same(Ask("/ws", headers=asked), PLAIN)
    assert (got.status, got.sent("upgrade")) == (200, None)


SERVERS_OWN = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "true"}


def cors_headers(got: Got) -> dict[str, str]:
    return {name: value for name, value in got.headers.items() if name.startswith("access-control-allow")}


@pytest.mark.parametrize(
    ("port", "origin", "allowed"),
    [
        (CORS, ORIGIN, ORIGIN),
        (CORS, "https://evil.example.org", None),
        (CORS, ORIGIN.upper(), None),
        (CORS, f"{ORIGIN}.evil.org", None),
        (CORS, None, None),
        (ANY_ORIGIN, "https://evil.example.org", "*"),
    ],
)
def test_cors_is_the_balancers_alone(edge: Edge, port: int, origin: str | None, allowed: str | None) -> None:
    headers = {"Origin": origin} if origin else {}
    got = edge.same(Ask("/v1/x", headers=headers, echo=SERVERS_OWN), port)
    assert got.status == 200
    assert cors_headers(got) == ({"access-control-allow-origin": allowed} if allowed else {})
    assert "origin" in got.headers["vary"].lower()


def test_preflights_are_answered_here(edge: Edge) -> None:
    asked = {
        "Origin": ORIGIN,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type",
    }
    got = edge.same(Ask("/v1/x", "OPTIONS", asked), CORS)
    assert (got.status, got.server) == (204, "")
    assert got.headers["access-control-allow-origin"] == ORIGIN
    assert "POST" in got.headers["access-control-allow-methods"]
    assert got.headers["access-control-allow-headers"] == "authorization, content-type"
    for refused in edge.each(Ask("/v1/x", "OPTIONS", {**asked, "Origin": "https://evil.org"}), CORS).values():
        assert "access-control-allow-origin" not in refused.headers


def test_errors_can_be_read_by_scripts(edge: Edge) -> None:
    got = edge.same(Ask("/v1/x", "POST", {"Origin": ORIGIN}, b"x" * 2_000), CORS)
    assert (got.status, got.code) == (413, "request_too_large")
    assert got.headers["access-control-allow-origin"] == ORIGIN


def test_without_cors_the_servers_headers_stay(edge: Edge) -> None:
    got = edge.same(Ask("/v1/x", headers={"Origin": ORIGIN}, echo=SERVERS_OWN))
    assert cors_headers(got) == {name.lower(): value for name, value in SERVERS_OWN.items()}


@pytest.mark.parametrize(("size", "status"), [(1_024, 200), (1_025, 413), (5_000, 413)])
def test_bodies_over_the_bound_are_refused(edge: Edge, size: int, status: int) -> None:
    got = edge.same(Ask("/v1/x", "POST", body=b"x" * size), SMALL)
    assert got.status == status
    assert status == 200 or (got.code, got.server) == ("request_too_large", "")


@pytest.mark.parametrize("length", [1 << 32, 1 << 40, 10**18])
def test_a_length_beyond_32_bits_is_over_the_bound_too(edge: Edge, length: int) -> None:
    for balancer in edge.balancers.values():
        answer = raw(
            balancer, SMALL, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % length, b"}"
        )
        assert b" 413 " in answer.splitlines()[0]


@pytest.mark.parametrize(("size", "statuses"), [(6_000, {200}), (32_000, {200}), (80_000, {400, 431})])
def test_headers_over_the_bound_are_refused(edge: Edge, size: int, statuses: set[int]) -> None:
    for name, got in edge.each(Ask("/v1/x", headers={"X-Long": "x" * size})).items():
        assert got.status in statuses
        # What HAProxy's parser refuses, from 3.0 on, has a page of its own that nothing changes.
        if got.status != 200 and name == "nginx":
            assert got.code in {"headers_too_large", "bad_request"}


def test_nonsense_is_refused(edge: Edge) -> None:
    for name, balancer in edge.balancers.items():
        answer = raw(balancer, PLAIN, b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b" 400 " in head.splitlines()[0]
        if name == "nginx":  # HAProxy's parser has a page of its own (seen on 2.6 to 3.2)
            assert json.loads(body)["error"]["code"] == "bad_request"


@pytest.mark.parametrize("given", ["req-1.2:3/4", "x" * 128])
def test_a_request_id_is_passed_on(edge: Edge, given: str) -> None:
    for got in edge.each(Ask("/v1/x", headers={"X-Request-Id": given})).values():
        assert (got.sent("x-request-id"), got.headers["x-request-id"]) == (given, given)


@pytest.mark.parametrize("given", [None, "", "x" * 129, 'a"b', "a b", "é"])
def test_a_request_id_is_made(edge: Edge, given: str | None) -> None:
    headers = {} if given is None else {"X-Request-Id": given}
    made = set()
    for _ in range(2):
        for got in edge.each(Ask("/v1/x", headers=headers, echo={"X-Request-Id": "the-servers"})).values():
            assert got.sent("x-request-id") == got.headers["x-request-id"]
            made.add(got.headers["x-request-id"])
    assert len(made) == 4
    assert given not in made


def test_what_a_client_claims_about_itself_is_overwritten(edge: Edge) -> None:
    claims = dict.fromkeys(("X-Forwarded-For", "X-Real-IP", "X-Forwarded-Host"), "192.0.2.9")
    got = edge.same(Ask("/v1/x", headers={**claims, "X-Forwarded-Proto": "https"}))
    assert "192.0.2.9" not in (
        got.sent("x-forwarded-for"),
        got.sent("x-real-ip"),
        got.sent("x-forwarded-host"),
    )
    assert got.sent("x-forwarded-proto") == "http"


def test_a_proxy_in_front_is_told_not_to_buffer_and_believed(edge: Edge) -> None:
    claims = {"X-Forwarded-For": "192.0.2.9", "X-Forwarded-Proto": "https"}
    got = edge.same(Ask("/v1/x", headers=claims), BEHIND)
    assert got.headers["x-accel-buffering"] == "no"
    assert (got.sent("x-forwarded-for"), got.sent("x-forwarded-proto")) == ("192.0.2.9", "https")
    odd = edge.same(Ask("/v1/x", headers={"X-Forwarded-Proto": "gopher"}), BEHIND)
    assert odd.sent("x-forwarded-proto") == "http"


def test_the_proxy_protocol_names_the_client(edge: Edge) -> None:
    request = f"GET /v1/x HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\nx-mock-echo: {{}}\r\n\r\n".encode()
    for balancer in edge.balancers.values():
        answer = raw(balancer, PROXIED, b"PROXY TCP4 192.0.2.7 192.0.2.8 1111 80\r\n" + request)
        seen = dict(json.loads(answer.partition(b"\r\n\r\n")[2])["headers"])
        assert seen["x-forwarded-for"] == "192.0.2.7"


FIELDS = {
    "time", "request_id", "client", "method", "path", "listener", "pool", "server", "status", "bytes_sent",
    "duration_s", "upstream_connect_s", "upstream_first_byte_s", "upstream_total_s", "retries",
    "decision",
}  # fmt: skip


def test_the_access_log_is_the_same_json(edge: Edge) -> None:
    entries = {}
    for name, balancer in edge.balancers.items():
        ident = f"log-{name}-1"
        send(balancer.address, PLAIN, Ask("/v1/y?secret=1", "POST", {"X-Request-Id": ident}, b"x"))
        # A line is written a moment after the answer.
        eventually(lambda text=ident, box=balancer: text in box.logs(), 5, "the line is there")  # type: ignore[misc]
        lines = [json.loads(line) for line in balancer.logs().splitlines() if line.startswith("{")]
        entry = next(line for line in lines if line["request_id"] == ident)
        assert entry.keys() == FIELDS
        assert all(isinstance(entry[key], float) for key in FIELDS if key.endswith("_s")), entry
        entries[name] = entry
    nginx, haproxy = entries["nginx"], entries["haproxy"]
    for key in ("client", "method", "path", "listener", "pool", "status", "retries"):
        assert nginx[key] == haproxy[key], key
    assert (nginx["path"], nginx["pool"], nginx["status"]) == ("/v1/y", "main", 200)


def test_probes_stay_out_of_the_log(edge: Edge) -> None:
    edge.each(Ask("/lb/live"))
    for balancer in edge.balancers.values():
        assert "lb/live" not in balancer.logs().replace("\\/", "/")
