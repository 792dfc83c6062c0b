r"""Whatever stands in a body: the balancer lives, others' streams trickle on, and the model is read right."""

from __future__ import annotations

import gzip
import json
import math
import re
import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integration.bodies import HOSTILE, ORDINARY
from integration.conftest import renewed
from integration.edge import HOST, Ask, Got, send
from integration.fleets import EVERY, Proxy, files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from lbgen.lab.boxes import Balancer, MockBox
    from lbgen.lab.rig import Rig

pytestmark = pytest.mark.alone

PROXIES = EVERY
MIB = 1024**2
JSON = {"Content-Type": "application/json"}
MODELS = {"model-a": "gpu-0", "org/model-b": "gpu-1"}
REST = "gpu-2"
LARGE, KEYED = 8080, 8081


def _prefix(server: int, model: str) -> dict[str, Any]:
    return {"engine": "http", "servers": [f"gpu-{server}:8000"], "models": [model], "strategy": "prefix"}


FLEET: dict[str, Any] = {
    "pools": {
        "a": _prefix(0, "model-a"),
        "b": _prefix(1, "org/model-b"),
        "rest": {"engine": "http", "servers": [f"{REST}:8000"], "strategy": "prefix"},
    },
    "clients": {"team": {"key": "env:TEAM"}},
    "listeners": {
        "large": {
            "bind": f"0.0.0.0:{LARGE}",
            "auth": "none",
            "inspect": {"body": "4MiB"},
            "routes": [
                {"model": ["model-a"], "pool": "a"},
                {"model": ["org/model-b"], "pool": "b"},
                {"name": "rest", "pool": "rest"},
            ],
        },
        "keyed": {
            "bind": f"0.0.0.0:{KEYED}",
            "auth": {"clients": "all"},
            "routes": [{"model": ["model-a"], "pool": "a"}, {"name": "rest", "pool": "rest"}],
        },
    },
    "targets": {"haproxy": {"threads": 1}},
}
GAP_S = 1.0
"""How long a stream may stand still beside any body; what a busy machine adds is the most of it."""


@pytest.fixture(scope="module", params=PROXIES, ids=str)
def balancer(request: pytest.FixtureRequest, rig: Rig, running_mocks: list[MockBox]) -> Iterator[Balancer]:
    proxy: Proxy = request.param
    renewed(running_mocks)
    started = rig.balancer(proxy.target, proxy.image, files(FLEET, proxy, {"TEAM": "sk-team"}))
    try:
        yield started
    finally:
        started.remove()


def post(balancer: Balancer, body: bytes, port: int = LARGE, **headers: str) -> Got:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return send(balancer.address, port, Ask("/v1/x", "POST", JSON | named, body))


@contextmanager
def trickling(balancer: Balancer) -> Iterator[list[float]]:
    """Hold a stream of a piece each 10 ms; yields the seconds between pieces, as they come."""
    gaps: list[float] = []
    messages = [{"role": "user", "content": "Go on."}]
    ask = json.dumps({"model": "m", "messages": messages, "stream": True, "max_tokens": 100_000}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(ask)}\r\n"
    with socket.create_connection((balancer.address, LARGE), timeout=20) as peer:
        peer.sendall(f"{head}x-mock-pace: 0,0.01\r\n\r\n".encode() + ask)
        assert peer.recv(65_536).startswith(b"HTTP/1.1 200 ")

        def read() -> None:
            last = time.monotonic()
            while piece := _piece(peer):
                now = time.monotonic()
                gaps.append(now - last if piece else math.inf)
                last = now

        reader = threading.Thread(target=read)
        reader.start()
        yield gaps
        assert reader.is_alive(), "the stream broke off"
        peer.shutdown(socket.SHUT_RDWR)
        reader.join()


def _piece(peer: socket.socket) -> bytes:
    try:
        return peer.recv(65_536)
    except OSError:
        return b""


@pytest.mark.parametrize("kind", [*ORDINARY, *HOSTILE])
def test_no_body_holds_up_others(balancer: Balancer, kind: str) -> None:
    body = {**ORDINARY, **HOSTILE}[kind](4 * MIB - 1_000)
    with trickling(balancer) as gaps:
        for _ in range(2):
            got = post(balancer, body)
            assert got.status == 200 if kind in ORDINARY else got.status in {200, 400, 413}, got
        time.sleep(0.1)
    assert max(gaps) < GAP_S
    assert len(gaps) > 5


DEAREST_MS = 50
"""What a body may cost in CPU for each MiB, whatever it is."""


def cpu_ms(balancer: Balancer) -> float:
    """Return how long the balancer's processes have run."""
    stats = [Path(f"/proc/{pid}/schedstat").read_text("ascii") for pid in balancer.processes()]
    return sum(int(stat.split()[0]) for stat in stats) / 1e6


def cost_ms(balancer: Balancer, body: bytes) -> float:
    """Return how long the balancer's processes have to run for a request, at the least."""

    def cost() -> float:
        before = cpu_ms(balancer)
        post(balancer, body)
        return cpu_ms(balancer) - before

    return min(cost() for _ in range(4))


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_body_costs_more_than_its_size_allows(balancer: Balancer, kind: str) -> None:
    body = HOSTILE[kind](2 * MIB)
    assert cost_ms(balancer, body) < DEAREST_MS * len(body) / MIB


@pytest.mark.parametrize("kind", ["a long prompt", "program code", "Chinese, escaped as Python does"])
def test_a_long_message_costs_about_what_many_short_ones_do(balancer: Balancer, kind: str) -> None:
    """What is long is read once, and neither hashed nor copied for each map."""
    short, long = (cost_ms(balancer, ORDINARY[name](2 * MIB)) for name in ("a chat of many turns", kind))
    assert long < 4 * short


@pytest.mark.parametrize(
    "body",
    [
        b'{"s":"' + rb"\/" * (2 * MIB - 10) + b'"}',
        json.dumps({"model": "m", "input": "你好世界请解释" * 24_000}).encode(),
        b'{"s":"' + rb"\/" * 150_000 + b'"}',
    ],
)
def test_what_ended_the_process_is_a_request_like_others(balancer: Balancer, body: bytes) -> None:
    for _ in range(2):
        assert post(balancer, body).server == REST


def test_without_a_key_no_byte_of_the_body_is_waited_for(balancer: Balancer) -> None:
    for method in ("POST", "OPTIONS", "PUT"):
        asked = f"{method} /v1/x HTTP/1.1\r\nHost: a\r\nOrigin: b\r\nAccess-Control-Request-Method: POST\r\n"
        with socket.create_connection((balancer.address, KEYED), timeout=5) as peer:
            peer.sendall(f"{asked}Content-Length: 1000\r\n\r\n".encode() + b'{"')
            assert peer.recv(65_536).split()[1] == b"401"


def test_a_body_is_read_where_the_key_is_known(balancer: Balancer) -> None:
    for model, server in {"model-a": "gpu-0", "x": REST}.items():
        got = post(balancer, json.dumps({"model": model}).encode(), KEYED, Authorization="Bearer sk-team")
        assert got.server == server


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS"])
def test_a_body_that_comes_late_is_waited_for(balancer: Balancer, method: str) -> None:
    body = b'{"model": "model-a"}'
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    for line, data in ((f"Content-Length: {len(body)}", body), ("Transfer-Encoding: chunked", chunks)):
        with socket.create_connection((balancer.address, LARGE), timeout=5) as peer:
            peer.sendall(
                f"{method} /v1/x HTTP/1.1\r\nHost: a\r\n{line}\r\nConnection: close\r\n\r\n".encode()
            )
            time.sleep(0.2)
            peer.sendall(data)
            answer = b"".join(iter(lambda: peer.recv(65_536), b""))
        assert b"x-mock-server: gpu-0\r\n" in answer.lower(), answer


@pytest.mark.parametrize(
    ("body", "server"),
    [
        (b'{"x": NaN, "model": "model-a"}', "gpu-0"),
        (b'{"x": [-Infinity, 1e999], "model": "model-a"}', "gpu-0"),
        (b'{"model": "x", "model": "model-a"}', "gpu-0"),
        (b'{"model": "model-a", "model": "x"}', REST),
        (b'{"model": "model-a", "model": null}', REST),
        (b'{"model": "model-a", "mod\\u0065l": "x"}', REST),
        (b'{"model": "org\\/model-b"}', "gpu-1"),
        (b'{"model": "org/model-b"}', "gpu-1"),
        (b'\xef\xbb\xbf{"model": "model-a"}', "gpu-0"),
        (b'\t\r\n {\n"model"\r:\t"model-a" }\n', "gpu-0"),
        (
            b'{"s": {"model": "x"}, "t": ["model", "x"], "u": "\\"model\\": \\"x\\"", "model": "model-a"}',
            "gpu-0",
        ),
        (b'{"d": ' + b"[" * 150 + b"]" * 150 + b', "model": "model-a"}', "gpu-0"),
        (b'{"model": "model-a\\u0000"}', REST),
        (b'{"model": "model-a\\n"}', REST),
        (b'{"model": "\\ud83d"}', REST),
        (b'{"model": ["model-a"]}', REST),
        (b'["model", "model-a"]', REST),
        (b'"model-a"', REST),
        (b"{}", REST),
        (b"", REST),
    ],
)
def test_the_model_is_what_python_reads(balancer: Balancer, body: bytes, server: str) -> None:
    got = post(balancer, body)
    assert (got.status, got.server) == (200, server)


@pytest.mark.parametrize(
    ("body", "server", "code"),
    [
        (b'{"d": ' + b"[" * 900 + b"]" * 900 + b', "model": "model-a"}', "gpu-0", "model_not_readable"),
        (b'{"model": "org\\/mod\\u0065l-b"}', "gpu-1", "odd_spelling"),
        (b'{"model": "model-a\\u0020"}', REST, "odd_spelling"),
    ],
)
def test_what_nginx_cannot_read_is_refused(balancer: Balancer, body: bytes, server: str, code: str) -> None:
    """Its stack is 32 KiB, and it compares names as they are written."""
    got = post(balancer, body)
    assert (got.code if balancer.target == "nginx" else got.server) == (
        code if balancer.target == "nginx" else server
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_other_encodings_are_refused_by_name(balancer: Balancer, encoding: str) -> None:
    got = post(balancer, '{"model": "model-a"}'.encode(encoding))
    assert (got.status, got.code) == (400, "invalid_json")


@pytest.mark.parametrize(
    "body",
    [b'{"model": "model-a"', b'{"model": model-a}', b'{"model": "model-a"} x', b'{"model" "model-a"}',
     b"{'model': 1}", b'{"model": "model-a",}', b'{"model": "\\x"}', b"model-a",
     b"{", b'{"model": 1 2}'],
)  # fmt: skip
def test_what_is_no_json_is_refused_as_such(balancer: Balancer, body: bytes) -> None:
    got = post(balancer, body)
    assert (got.status, got.code) == (400, "invalid_json")


def test_what_is_no_text_has_no_model(balancer: Balancer) -> None:
    got = post(balancer, b'{"model": "model-\xfc"}')
    # NGINX leaves it to the server to refuse what is no UTF-8.
    assert got.server == REST if balancer.target == "nginx" else got.code == "invalid_json"


@pytest.mark.parametrize("body", [b"--x\r\nmodel-a", b'{"model": "model-a"}'])
def test_what_claims_to_be_a_form_and_is_none_is_refused(balancer: Balancer, body: bytes) -> None:
    got = post(balancer, body, Content_Type="multipart/form-data; boundary=x")
    assert (got.status, got.code) == (400, "invalid_form")


@pytest.mark.parametrize("kind", ["application/octet-stream", "audio/wav"])
def test_what_does_not_claim_to_be_json_has_no_model(balancer: Balancer, kind: str) -> None:
    assert post(balancer, b"--x\r\nmodel-a", Content_Type=kind).server == REST
    assert post(balancer, b'{"model": "model-a"}', Content_Type=kind).server == "gpu-0"


@pytest.mark.parametrize("encodings", [["gzip"], ["zstd"], ["identity", "gzip"], ["GZIP"], ["identity, br"]])
def test_a_compressed_body_is_refused_by_the_header_that_says_so(
    balancer: Balancer, encodings: list[str]
) -> None:
    body = gzip.compress(b'{"model": "model-a"}')
    lines = [f"Content-Encoding: {encoding}\r\n" for encoding in encodings]
    head = f"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
    with socket.create_connection((balancer.address, LARGE), timeout=5) as peer:
        peer.sendall(f"{head}{''.join(lines)}\r\n".encode() + body)
        answer = b"".join(iter(lambda: peer.recv(65_536), b""))
    if balancer.target == "nginx" and encodings[0] == "identity" and answer.split()[1] == b"400":
        return  # 1.22 sees the first header alone, and so would the server: this is no JSON
    assert answer.split()[1] == b"415"
    assert b"Content-Encoding" in answer.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
def test_an_encoding_that_is_none_hides_nothing(balancer: Balancer, encoding: str) -> None:
    assert post(balancer, b'{"model": "model-a"}', Content_Encoding=encoding).server == "gpu-0"


def test_a_body_that_is_longer_than_what_is_inspected_is_refused(balancer: Balancer) -> None:
    got = post(balancer, b'{"s": "' + b"x" * 4 * MIB + b'", "model": "model-a"}')
    assert (got.status, got.code) == (413, "model_not_readable")


class Members(list[tuple[str, Any]]):
    """An object of JSON as it is written: names may come again."""


KEYS = (
    st.sampled_from(
        ["model", "mode", "model ", "Model", "messages", "max_tokens", "system", "input", "role", ""]
    )
    | st.text()
)
NAMES = (
    st.sampled_from([*MODELS, "system", "model-a ", "model-A", "x", "", "model-a\x00", "model-a\n"])
    | st.text()
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.lists(st.tuples(KEYS, inner), max_size=4).map(Members),
    max_leaves=12,
)
BODIES = st.tuples(
    st.lists(st.tuples(KEYS, VALUES), max_size=4),
    st.lists(st.tuples(st.just("model"), NAMES | VALUES), max_size=2),
    st.lists(st.tuples(KEYS, VALUES), max_size=4),
).map(lambda parts: Members([*parts[0], *parts[1], *parts[2]]))


def spelled(value: Any, random: Random) -> str:
    """Write a value as JSON in one of the ways in which it can be written."""

    def gap() -> str:
        return "".join(random.choices(" \t\r\n", k=random.choice((0, 0, 0, 1, 3))))

    if isinstance(value, str):
        return '"' + "".join(_character(character, random) for character in value) + '"'
    if isinstance(value, Members):
        inside = [
            f"{gap()}{spelled(key, random)}{gap()}:{gap()}{spelled(item, random)}{gap()}"
            for key, item in value
        ]
        return "{" + (",".join(inside) or gap()) + "}"
    if isinstance(value, list):
        return "[" + (",".join(f"{gap()}{spelled(item, random)}{gap()}" for item in value) or gap()) + "]"
    return json.dumps(value)


def _character(character: str, random: Random) -> str:
    if character == "/" and random.random() < 0.5:
        return r"\/"
    if random.random() < 0.2:
        text = json.dumps(character)[1:-1]
        return text if len(text) > 1 else f"\\u{ord(character):04{random.choice('xX')}}"
    return json.dumps(character, ensure_ascii=False)[1:-1]


def wanted(body: bytes) -> str:
    """Return the server that has to get a body."""
    read = json.loads(body)
    model = read.get("model") if isinstance(read, dict) else None
    return MODELS.get(model, REST) if isinstance(model, str) else REST


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=BODIES | VALUES, random=st.randoms(use_true_random=False), mark=st.booleans())
def test_any_json_reaches_the_right_pool(balancer: Balancer, value: Any, random: Random, mark: bool) -> None:
    body = (b"\xef\xbb\xbf" if mark else b"") + spelled(value, random).encode("utf-8", "surrogatepass")
    got = post(balancer, body)
    if balancer.target == "nginx" and got.status != 200:
        assert re.search(rb"\\u00[2-7]", body), body
        assert got.code == "odd_spelling", body
        return
    assert (got.status, got.server) == (200, wanted(body)), body


@pytest.mark.parametrize("proxy", PROXIES, ids=str)
def test_every_thread_finds_what_reads_bodies(rig: Rig, running_mocks: list[MockBox], proxy: Proxy) -> None:
    """From whatever folder it starts: 2.6 and 3.0 look there for the script of their second thread."""
    renewed(running_mocks)
    threads = {"targets": {proxy.target: {"threads": 2} if proxy.target == "haproxy" else {}}}
    started = rig.balancer(proxy.target, proxy.image, files(FLEET | threads, proxy, {"TEAM": "sk-team"}))
    try:
        for _ in range(8):
            assert post(started, b'{"model": "org/model-b"}').server == MODELS["org/model-b"]
    finally:
        started.remove()
