"""What clients send to get past the rules: each is refused, or taken as the rules understood it."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integration.edge import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.edge import Edge

LISTED = ("nginx", "haproxy")
"""The targets that hold all of this."""

GUARDED, SOCKETS, KEYED, PREFLIGHTS, TRUSTING, EXEMPTING, COUNTING = range(8080, 8087)
KEY = "a-key-that-nobody-guesses"
SECRETS = {"KEY": KEY}
ORIGIN = "https://chat.example.org"
MAIN = [{"pool": "main"}]
PROXY = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]
"""Where these tests connect from."""


def answer(name: str) -> dict[str, Any]:
    return {"respond": {"status": 403, "json": {"route": name}}}


FLEET: dict[str, Any] = {
    "pools": {"main": {"engine": "vllm", "servers": ["gpu-0:8000"]}},
    "clients": {"team": {"key": "env:KEY"}},
    "listeners": {
        "guarded": {
            "bind": str(GUARDED),
            "auth": "none",
            "routes": [
                {"path": ["/metrics", "/admin"], **answer("guard")},
                {"path": "/private%20area", **answer("escaped")},
                {"path_exact": "/v1//models", **answer("models")},
                {"path": "/gpt", "strip_prefix": True, "pool": "main"},
                {"header": {"X-Tier": "batch"}, **answer("batch")},
                {"name": "rest", "pool": "main"},
            ],
        },
        "sockets": {"bind": str(SOCKETS), "auth": "none", "websocket": True, "routes": MAIN},
        "keyed": {"bind": str(KEYED), "auth": {"clients": "all"}, "websocket": True, "routes": MAIN},
        "preflights": {
            "bind": str(PREFLIGHTS),
            "auth": {"clients": "all"},
            "cors": {"origins": [ORIGIN]},
            "routes": MAIN,
        },
        "trusting": {"bind": str(TRUSTING), "auth": "none", "trusted_proxies": PROXY, "routes": MAIN},
        "exempting": {
            "bind": str(EXEMPTING),
            "auth": {"clients": "all", "except": PROXY},
            "trusted_proxies": PROXY,
            "routes": MAIN,
        },
        "counting": {
            "bind": str(COUNTING),
            "auth": {"clients": "all"},
            "limits": [{"rate": "60/m", "burst": 5, "per": "ip"}],
            "routes": MAIN,
        },
    },
}


class Got(NamedTuple):
    """What came back for some bytes."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    def seen(self, name: str) -> list[str]:
        """Return a header's values as the server saw them."""
        assert self.all("x-mock-server"), self
        return [value for key, value in self.json["headers"] if key == name]


def request(*lines: str, target: str = "/v1/x", method: str = "GET", host: str = HOST) -> bytes:
    """Return a request that the server answers with what it saw."""
    head = (f"{method} {target} HTTP/1.1", f"Host: {host}", "x-mock-echo: {}", *lines)
    return "\r\n".join((*head, "Connection: close", "", "")).encode("latin-1")


def ask(address: str, port: int, data: bytes) -> Got:
    with socket.create_connection((address, port), timeout=10) as peer:
        peer.sendall(data)
        text = b""
        with suppress(ConnectionResetError):  # after an answer to a body that goes on
            while piece := peer.recv(65_536):
                text += piece
    head, _, body = text.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return Got(int(first.split()[1]), [(name.lower(), value.strip()) for name, _, value in pairs], body)


def each(edge: Edge, port: int, data: bytes) -> Iterator[Got]:
    """Send the same bytes to every target."""
    for target in LISTED:
        yield ask(edge.balancers[target].address, port, data)


UNREADABLE = (
    "/%zz", "/%", "/%0", "/metrics/%zz", "/x/../metrics%zz", "/%00", "/metrics%00", "/v1/%00x",
    "/metrics/%2", "/%%32", "/..", "/x/../metrics", "/x/%2e%2e/metrics", "/x/..%2Fmetrics", "/./metrics",
    "/.%2e/%6detrics", "/metrics/..", "/%2e",
)  # fmt: skip


@pytest.mark.parametrize("path", UNREADABLE)
def test_a_path_that_cannot_be_read_is_400(edge: Edge, path: str) -> None:
    for got in each(edge, GUARDED, request(target=path)):
        assert (got.status, got.all("x-mock-server")) == (400, []), got
        assert got.json["error"]["code"] == "bad_request"


@pytest.mark.parametrize("path", ["/#", "/x#/metrics", "/#/../metrics", "/v1/x?a#b", "/gpt/#"])
def test_no_fragment_reaches_a_server(edge: Edge, path: str) -> None:
    for got in each(edge, GUARDED, request(target=path)):
        assert (got.status, got.all("x-mock-server")) == (400, []), got


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/metrics", "guard"),
        ("/metric%73/x", "guard"),
        ("/%6d%65trics%2Fx", "guard"),
        ("//metrics", "guard"),
        ("/%2Fmetrics//x", "guard"),
        ("///metrics", "guard"),
        ("//", "rest"),
        ("/metrics?x=/../%zz", "guard"),
        ("/metrics;x=1", "rest"),
        ("/;/metrics", "rest"),
        ("/METRICS", "rest"),
        ("/%256detrics", "rest"),
        ("/%2e%2e%2e", "rest"),
        ("/x%FFy", "rest"),
        ("/metrics%FF", "rest"),
        ("/metrics%20", "rest"),
        ("/private%20area", "escaped"),
        ("/private%20area/x", "escaped"),
        ("/priv%61te%20area", "escaped"),
        ("/private+area", "rest"),
        ("/private%2520area", "rest"),
        ("/v1/models", "models"),
        ("/v1//models", "models"),
        (f"http://{HOST}/metrics", "guard"),
        (f"http://{HOST}//metri%63s", "guard"),
    ],
)
def test_paths_are_compared_decoded_with_single_slashes(edge: Edge, path: str, route: str) -> None:
    for got in each(edge, GUARDED, request(target=path)):
        taken = "rest" if got.all("x-mock-server") else got.json["route"]
        assert taken == route, got


def test_no_server_sees_a_prefix_that_is_half_stripped(edge: Edge) -> None:
    for got in each(edge, GUARDED, request(target="/gpt/a%2Fb//c")):
        assert got.json["target"] == "/a%2Fb//c"
    for path in ("/%67pt/x", "//gpt/x", "/gpt%2Fx"):
        for got in each(edge, GUARDED, request(target=path)):
            assert (got.status, got.json["error"]["code"]) == (404, "not_found")


PIECES = ("/", "//", "metrics", "admin", "private area", "v1", "models", "gpt", ".", "..", "x", ";", "%")


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """Return a path in which any character may stand escaped, once or twice, and in another case."""
    text = "/" + "".join(draw(st.lists(st.sampled_from(PIECES), max_size=6)))
    spelled = []
    for character in text:
        way = draw(st.sampled_from("=======%%2U"))
        escaped = f"%{ord(character):02x}"
        plain = escaped if character in " %" else character
        spelled.append({"=": plain, "%": escaped, "2": f"%25{escaped[1:]}", "U": plain.upper()}[way])
    return "/" + "".join(spelled)[1:] if spelled[0] != "/" else "".join(spelled)


def outcome(got: Got) -> str:
    if got.all("x-mock-server"):
        return f"server {got.json['target']}"
    return str(got.json.get("route") or got.status)


def test_both_targets_take_the_same_route(edge: Edge) -> None:
    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(spellings())
    def same(path: str) -> None:
        outcomes = {outcome(got) for got in each(edge, GUARDED, request(target=path))}
        assert len(outcomes) == 1, (path, outcomes)
        guarded = any(f"/{name}" in path for name in ("metrics/", "admin/")) and path[1:2] in {"m", "a"}
        assert not (guarded and outcomes.pop().startswith("server")), path

    same()


@pytest.mark.parametrize("method", ["CONNECT", "TRACE"])
@pytest.mark.parametrize("port", [GUARDED, KEYED, PREFLIGHTS])
def test_tunnels_and_echoes_are_405(edge: Edge, port: int, method: str) -> None:
    target = f"{HOST}:80" if method == "CONNECT" else "/v1/x"
    host = target if method == "CONNECT" else HOST
    for got in each(edge, port, request(target=target, method=method, host=host)):
        assert (got.status, got.json["error"]["code"]) == (405, "method_not_allowed")
        assert "POST" in got.all("allow")[0]
        assert not got.all("x-mock-server")


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("X-Request-Id", "good", "b d"),
        ("X-Request-Id", "good", "better"),
        ("Origin", ORIGIN, "https://evil.example.org"),
        ("Authorization", f"Bearer {KEY}", "Bearer other"),
        ("Authorization", "Bearer other", f"Bearer {KEY}"),
        ("X-Api-Key", KEY, "other"),
        ("X-Forwarded-Proto", "https", "gopher"),
    ],
)
@pytest.mark.parametrize("port", [GUARDED, SOCKETS, KEYED, PREFLIGHTS, TRUSTING])
def test_a_header_that_decides_is_one_value_or_400(
    edge: Edge, port: int, name: str, first: str, second: str
) -> None:
    key = [] if name in {"Authorization", "X-Api-Key"} else [f"Authorization: Bearer {KEY}"]
    lines = [f"{name}: {first}", f"{name}: {second}", *key]
    for got in each(edge, port, request(*lines)):
        if got.all("x-mock-server"):
            # NGINX 1.22 sees the first alone; then the server must, too, or what the balancer makes of it.
            seen = got.seen(name.lower())
            made = name in {"X-Request-Id", "X-Forwarded-Proto"} and len(seen) == 1 and seen != [second]
            assert seen in ([], [first]) or made, got
            assert got.all("access-control-allow-origin") in ([], [first])
        else:
            assert got.status in {400, 401, 403}, got


@pytest.mark.parametrize("tiers", [("batch", "other"), ("other", "batch")])
def test_a_header_that_a_route_asks_for_is_one_value_or_400(edge: Edge, tiers: tuple[str, str]) -> None:
    for got in each(edge, GUARDED, request(*(f"X-Tier: {tier}" for tier in tiers))):
        # Two are one with a comma to NGINX from 1.23 on, and to the server then.
        assert not got.all("x-mock-server") or got.seen("x-tier") in (["other"], [", ".join(tiers)])


@pytest.mark.parametrize("written", ["\tbatch", "batch\t", " \t batch \t ", "batch  "])
def test_white_space_around_a_header_hides_nothing(edge: Edge, written: str) -> None:
    for got in each(edge, GUARDED, request(f"X-Tier:{written}")):
        assert (got.status, got.json["route"]) == (403, "batch")


SMUGGLED = (
    ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"),
    ("Upgrade: websocket, h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABk"),
    ("Upgrade: h2c, websocket", "Connection: Upgrade", "Connection: HTTP2-Settings"),
    ("Upgrade: websocket", "Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABk"),
    ("Upgrade:\th2c", "Connection: keep-alive, Upgrade", "HTTP2-Settings: AAMAAABk"),
)


@pytest.mark.parametrize("lines", SMUGGLED)
@pytest.mark.parametrize("port", [GUARDED, SOCKETS])
def test_h2c_never_reaches_a_server(edge: Edge, port: int, lines: tuple[str, ...]) -> None:
    data = request(*lines).replace(b"Connection: close\r\n", b"")
    for target in LISTED:
        with socket.create_connection((edge.balancers[target].address, port), timeout=10) as peer:
            peer.sendall(data)
            text = peer.recv(65_536)
        # HAProxy takes `h2c` off by itself (seen on 3.0.11); what is left may be a handshake.
        assert not text.startswith(b"HTTP/1.1 101") or b"upgrade: websocket\r\n" in text.lower(), text
        assert b"h2c" not in text.lower()
        assert b"http2-settings" not in text.lower()


def test_a_handshake_keeps_what_a_websocket_needs_alone(edge: Edge) -> None:
    lines = (
        "Upgrade: websocket", "Connection: keep-alive, Upgrade, X-Forwarded-For", "HTTP2-Settings: AAMAAABk",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
    )  # fmt: skip
    data = request(*lines).replace(b"Connection: close\r\n", b"")
    for target in LISTED:
        with socket.create_connection((edge.balancers[target].address, SOCKETS), timeout=10) as peer:
            peer.sendall(data)
            assert peer.recv(65_536).startswith(b"HTTP/1.1 101 ")
            peer.sendall(b"\x81\x03abc")
            assert peer.recv(100) == b"\x81\x03abc"


@pytest.mark.parametrize("upgrade", [(), ("Upgrade: websocket",)])
def test_preflights_are_free_of_keys_where_cors_answers_them(edge: Edge, upgrade: tuple[str, ...]) -> None:
    asks = (f"Origin: {ORIGIN}", "Access-Control-Request-Method: POST", *upgrade)
    for got in each(edge, KEYED, request(*asks, method="OPTIONS")):
        assert (got.status, got.json["error"]["code"]) == (401, "invalid_api_key")
    for got in each(edge, PREFLIGHTS, request(*asks, method="OPTIONS")):
        assert (got.status, got.all("access-control-allow-origin")) == (204, [ORIGIN])
        assert not got.all("x-mock-server")


def test_nobody_without_a_key_is_waited_for(edge: Edge) -> None:
    """The answer comes while the body is on its way."""
    for port in (KEYED, PREFLIGHTS):
        head = request("Content-Length: 8000000", f"Origin: {ORIGIN}", method="POST")
        for target in LISTED:
            with socket.create_connection((edge.balancers[target].address, port), timeout=5) as peer:
                peer.sendall(head)
                assert peer.recv(100).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    ("given_for", "status"),
    [
        (["10.1.1.1"], 200),
        (["10.1.1.1:443"], 200),
        (["8.8.8.8"], 401),
        (["8.8.8.8, 10.1.1.1"], 401),
        (["10.1.1.1,"], 401),
        (["10.1.1.1,,"], 401),
        (["10.1.1.1, ,"], 401),
        (["10.1.1.1, 8.8.8.8"], 401),
        (["10.1.1.1, 8.8.8.8:443"], 401),
        (["10.1.1.1, 8.8.8.8:443, 10.2.2.2:80"], 401),
        (["10.1.1.1, 2001:db8::1"], 401),
        (["10.1.1.1, [2001:db8::1]"], 401),
        (["10.1.1.1, [2001:db8::1]:443"], 401),
        (["10.1.1.1, unknown"], 401),
        (["10.1.1.1, unix:"], 401),
        (['10.1.1.1, "8.8.8.8"'], 401),
        (["10.1.1.1, 999.1.1.1"], 401),
        (["10.1.1.1, 8.8.8.8:99999x"], 401),
        (["10.1.1.1, 8.8.8.8 10.1.1.1"], 401),
        (["10.1.1.1, "], 401),
        (["unknown"], 401),
        (["unknown, 10.1.1.1"], 401),
        (["10.1.1.1", "8.8.8.8"], 401),
        (["10.1.1.1", "unknown"], 401),
    ],
)
def test_what_no_proxy_could_read_is_not_trusted(edge: Edge, given_for: list[str], status: int) -> None:
    lines = [f"X-Forwarded-For: {value}" for value in given_for]
    for got in each(edge, EXEMPTING, request(*lines)):
        assert got.status == status


@pytest.mark.parametrize(
    ("given_for", "seen"),
    [
        ("1.2.3.4, 8.8.8.8", "8.8.8.8"),
        ("1.2.3.4, 8.8.8.8:443, 10.1.1.1", "8.8.8.8"),
        ("1.2.3.4, [2001:db8::1]:443", "2001:db8::1"),
        ("1.2.3.4, [2001:db8::1], 10.0.0.3:1", "2001:db8::1"),
        ("1.2.3.4, 2001:db8::1", "2001:db8::1"),
    ],
)
def test_a_trusted_proxy_names_the_client(edge: Edge, given_for: str, seen: str) -> None:
    for got in each(edge, TRUSTING, request(f"X-Forwarded-For: {given_for}")):
        named = got.seen("x-forwarded-for")
        # NGINX 1.22 cannot read an IPv6 address in brackets without a port: it ends the walk.
        assert named == [seen] or ("]," in given_for and named != ["1.2.3.4"])


CLAIMED = (
    "Forwarded", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Server", "X-Forwarded-Scheme",
    "X-Original-URL", "X-Rewrite-URL",
)  # fmt: skip


@pytest.mark.parametrize("name", CLAIMED)
def test_claims_are_a_trusted_proxys_alone(edge: Edge, name: str) -> None:
    for got in each(edge, GUARDED, request(f"{name}: /admin")):
        assert got.seen(name.lower()) == []
    for got in each(edge, TRUSTING, request(f"{name}: /admin", "X-Forwarded-For: 8.8.8.8")):
        assert got.seen(name.lower()) == ["/admin"]


def test_wrong_keys_are_counted_by_address(edge: Edge) -> None:
    for target in LISTED:
        statuses = [
            ask(
                edge.balancers[target].address, COUNTING, request(f"Authorization: Bearer guess-{number}")
            ).status
            for number in range(30)
        ]
        assert statuses[0] == 401
        assert statuses[-1] == 429
        assert statuses.count(401) <= 10, statuses


@pytest.mark.parametrize("port", [GUARDED, TRUSTING])
def test_headers_of_32_kib_pass_both_ways(edge: Edge, port: int) -> None:
    long = "x" * 32_000
    echoed = json.dumps({"X-Long": long})
    data = request(f"X-Long: {long}").replace(b"x-mock-echo: {}", b"x-mock-echo: {}")
    for got in each(edge, port, data):
        assert got.seen("x-long") == [long]
    # The header that asks for the echo is as long as what it asks for.
    for got in each(edge, port, request(*()).replace(b"x-mock-echo: {}", f"x-mock-echo: {echoed}".encode())):
        assert got.all("x-long") == [long]


def test_larger_headers_are_431_and_eject_nobody(edge: Edge) -> None:
    for got in each(edge, GUARDED, request(f"X-Long: {'x' * 40_000}")):
        assert (got.status, got.json["error"]["code"]) == (431, "headers_too_large")
    for got in each(edge, GUARDED, request(target="/" + "x/" * 24_000)):
        assert got.status in {414, 431}
    for got in each(edge, GUARDED, request()):
        assert got.all("x-mock-server")


def test_a_path_of_slashes_costs_little(edge: Edge) -> None:
    begin = time.monotonic()
    for _ in range(10):
        for got in each(edge, GUARDED, request(target="/metrics" + "/x/" * 10_000)):
            assert got.status in {403, 414, 431}
    assert time.monotonic() - begin < 5


TWICE = ("-H", "X-Request-Id: a", "-H", "X-Request-Id: b")


@pytest.mark.parametrize(
    ("path", "words", "status"),
    [
        ("/%zz", (), 400),
        ("/metrics%00", (), 400),
        ("/x/../metrics", (), 400),
        ("/x/%2e%2e/metrics", (), 400),
        ("//metri%63s", (), 403),
        ("/private%20area", (), 403),
        ("/v1/x", TWICE, 400),
        ("/v1/x", ("-H", f"X-Long: {'x' * 33_000}"), 431),
        ("/v1/x", (), 200),
    ],
)
def test_over_http2_too(edge: Edge, path: str, words: tuple[str, ...], status: int) -> None:
    box = edge.balancers["haproxy"]  # NGINX 1.22 speaks it with TLS alone
    asked = ("curl", "-s", "--http2-prior-knowledge", "--path-as-is", "-H", "x-mock-echo: {}", *words)
    told = box.run(
        *asked, "-o", "/dev/null", "-w", "%{http_version} %{http_code}", f"localhost:{GUARDED}{path}"
    )
    assert told == f"2 {status}"


@pytest.mark.parametrize(
    "lines",
    [
        ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Transfer-Encoding: chunked", "Content-Length: 99999999999999"),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: xyz",),
        ("Content-Length: x",),
        ("Content-Length: 1", "Content-Length: 2"),
        ("A B: c",),
    ],
)
def test_what_has_no_one_end_is_refused_as_malformed(edge: Edge, lines: tuple[str, ...]) -> None:
    got = ask(edge.balancers["nginx"].address, GUARDED, request(*lines, method="POST") + b"0\r\n\r\n")
    assert (got.status, got.json["error"]["code"]) == (400, "bad_request")


def test_no_length_reaches_a_server_beside_an_encoding(edge: Edge) -> None:
    """HTTP has the length not count then, and HAProxy takes it off."""
    data = request("Content-Length: 50", "Transfer-Encoding: chunked", method="POST") + b"0\r\n\r\n"
    got = ask(edge.balancers["haproxy"].address, GUARDED, data)
    assert (got.seen("content-length"), got.seen("transfer-encoding")) == ([], ["chunked"])
