"""Answers of the balancer itself that no other test looks at, each from the programs and with its code."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

from integration.edge import HOST, Ask
from integration.fleets import TARGETS
from integration.test_edge_tls import beside, trusting

if TYPE_CHECKING:
    from integration.edge import Edge

__all__ = ["beside"]
PLAIN, SECURE = 8080, 8443
OTHER = "other.example.org"
TLS: dict[str, Any] = {"bundle": "server.pem"}
FLEET: dict[str, Any] = {
    "pools": {"chat": {"engine": "vllm", "models": ["m"], "servers": ["gpu-0:8000"]}},
    "listeners": {
        "plain": {
            "bind": str(PLAIN),
            "timeouts": {"header": "2s", "body": "2s"},
            "routes": [{"model": "m", "pool": "chat"}],
        },
        "mutual": {"bind": str(SECURE), "hosts": [HOST], "tls": {**TLS, "client_ca": "ca.pem"}},
        "open": {"bind": str(SECURE), "hosts": [OTHER], "tls": TLS},
    },
}


def heard(edge: Edge, target: str, port: int, said: bytes) -> bytes:
    """Send bytes, and return the answer, or nothing where the balancer hangs up."""
    with socket.create_connection((edge.balancers[target].address, port), timeout=60) as client:
        client.sendall(said)
        found = b""
        try:
            while not found.endswith((b"}", b"</html>\n")) and (piece := client.recv(65536)):
                found += piece
        except ConnectionResetError:
            pass
    return found


def code_of(answer: bytes) -> tuple[bytes, str]:
    """Return status and code of a whole answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split()[1], str(json.loads(body)["error"]["code"])


def test_a_body_whose_encoding_hides_what_decides(edge: Edge) -> None:
    for encoding in ("gzip", "br", "x-unknown"):
        headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
        got = edge.same(Ask("/v1/completions", "POST", headers, b"?"), PLAIN)
        assert (got.status, got.code) == (415, "unsupported_content_encoding")


def test_a_url_that_is_too_long(edge: Edge) -> None:
    got = edge.same(Ask("/" + "x" * 40_000), PLAIN)
    assert (got.status, got.code) == (414, "uri_too_long")


def test_a_host_on_a_connection_for_another_one(edge: Edge) -> None:
    """The connection was made for a host that asks for no certificate, and this one does."""
    context = trusting()
    context.check_hostname = False  # of the two names the certificate has one
    got = edge.same(Ask("/v1/models", host=OTHER, headers={"Host": HOST}), SECURE, context)
    assert (got.status, got.code) == (421, "misdirected_request")


def test_a_body_that_takes_too_long(edge: Edge) -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n"
    answers = {target: heard(edge, target, PLAIN, head + b'{"model": "m"') for target in TARGETS}
    assert code_of(answers["haproxy"]) == (b"408", "request_timeout")
    assert answers["nginx"] == b""


def test_headers_that_take_too_long(edge: Edge) -> None:
    """No rule and no page of ours is known to HAProxy before the headers are there (2.6.12 to 3.2)."""
    answers = {target: heard(edge, target, PLAIN, b"GET / HTTP/1.1\r\nHost: x\r\nX-") for target in TARGETS}
    assert answers["haproxy"].startswith(b"HTTP/1.1 408 ")
    assert answers["nginx"] == b""


def test_plain_http_where_tls_is_spoken(edge: Edge) -> None:
    said = f"GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode()
    answers = {target: heard(edge, target, SECURE, said) for target in TARGETS}
    assert code_of(answers["nginx"]) == (b"400", "https_required")
    assert answers["haproxy"] == b""
