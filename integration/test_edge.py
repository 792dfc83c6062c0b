"""Routes: the same requests to NGINX and HAProxy reach the same servers as the same bytes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from integration.edge import HOST, Ask, send

if TYPE_CHECKING:
    from integration.edge import Edge

MODELS, STICKY = 8081, 8082
BARE = (403, 404, 405, 410, 413, 429, 503)
"""Statuses of answers without a text, for most of which the balancers have answers of their own."""

FLEET: dict[str, Any] = {
    "pools": {
        "main": {"engine": "vllm", "servers": ["gpu-0:8000"], "models": ["small"]},
        "gpt": {
            "engine": "vllm",
            "servers": ["gpu-1:8000"],
            "models": ["big*"],
            "headers": {"set": {"X-Pool": "gpt", "X-Both": "pool"}, "remove": ["X-Debug"]},
        },
        "canary": {"engine": "vllm", "servers": ["gpu-2:8000"]},
        "named": {"engine": "vllm", "servers": ["gpu-3:8000"], "host_header": "inference.internal"},
    },
    "listeners": {
        "routes": {
            "bind": "8080",
            "routes": [
                {"path": "/keep", "pool": "main"},
                {"path": "/strip", "strip_prefix": True, "pool": "main"},
                {"path": "/add", "add_prefix": "/v1", "pool": "main"},
                {
                    "path": "/gpt",
                    "strip_prefix": True,
                    "add_prefix": "/v1",
                    "pool": "gpt",
                    "headers": {"set": {"X-Both": "route", "X-Route": "a b"}, "remove": ["X-Secret"]},
                },
                {"path": "/gpt/special", "pool": "canary"},
                {"path_exact": "/gpt/special/one", "pool": "main"},
                {"path": "/host", "host": ["one.example.org", "*.wild.example.org"], "pool": "canary"},
                {"path": "/header", "header": {"X-Tier": "batch"}, "pool": "canary"},
                {"path": "/header", "header": {"X-Tier": "batch"}, "method": "POST", "pool": "gpt"},
                {"path": "/header", "pool": "main"},
                {"path": "/method", "method": ["POST", "PUT"], "pool": "main"},
                {"path": "/named", "pool": "named"},
                {"path_exact": "/v1/models", "respond": {"json": {"object": "list", "data": []}}},
                {
                    "path_exact": "/gone",
                    "respond": {"status": 410, "body": "gone; $away {%}", "content_type": "text/html"},
                },
                {"path": "/empty", "respond": {"status": 204}},
                *({"path": f"/bare/{status}", "respond": {"status": status}} for status in BARE),
                {"path": "/split", "split": {"main": 1, "canary": 1}},
            ],
        },
        "models": {"bind": str(MODELS), "inspect": {"body": "32KiB"}},
        "sticky": {
            "bind": str(STICKY),
            "routes": [{"split": {"main": 1, "canary": 1}, "by": {"header": "X-User"}}],
        },
    },
}
FLEET["listeners"]["models"]["routes"] = [
    {"model": "small", "pool": "main"},
    {"model": "big*", "pool": "gpt"},
]

REST = ("", "/", "/v1/x?y=1", "/a%2Fb", "/a%20b/%C3%A9?q=%2f&q=", "//double//", "/dot.txt?", "/a+b&c=d;e")
"""What follows a prefix: each goes on as the client sent it."""


def expected(prefix: str, rest: str) -> str:
    """Return the path that the server has to see."""
    below = rest or "/"
    return {
        "/keep": f"/keep{rest}",
        "/strip": below,
        "/add": f"/v1/add{rest}",
        "/gpt": f"/v1{below}",
    }[prefix]


@pytest.mark.parametrize("prefix", ["/keep", "/strip", "/add", "/gpt"])
@pytest.mark.parametrize("rest", REST)
def test_servers_see_the_same_path(edge: Edge, prefix: str, rest: str) -> None:
    got = edge.same(Ask(prefix + rest))
    assert got.status == 200
    assert got.seen["target"] == expected(prefix, rest).removesuffix("?")


@pytest.mark.parametrize("path", ["/gptx", "/gptx/y", "/gp", "/", "/GPT", "/none?x=/gpt"])
def test_no_route_is_404_as_json(edge: Edge, path: str) -> None:
    got = edge.same(Ask(path))
    assert (got.status, got.code, got.server) == (404, "not_found", "")


@pytest.mark.parametrize("path", ["/keep/../secret", "/keep/%2e%2e/secret", "/keep/./../secret", "/keep/.."])
def test_dot_segments_lead_nowhere(edge: Edge, path: str) -> None:
    """A server that resolves them would serve a path that no route allows."""
    for got in edge.each(Ask(path)).values():
        assert (got.status, got.server) in {(400, ""), (404, "")}


def test_an_encoded_path_takes_its_route(edge: Edge) -> None:
    assert edge.same(Ask("/%6beep/x")).seen["target"] == "/%6beep/x"


JSON = {"Content-Type": "application/json"}
TAKEN = (
    (Ask("/gpt/special"), "gpu-2"),
    (Ask("/gpt/special/x"), "gpu-2"),
    (Ask("/gpt/specialist"), "gpu-1"),
    (Ask("/gpt/special/one"), "gpu-0"),
    (Ask("/gpt/special/one/more"), "gpu-2"),
    (Ask("/host", host="one.example.org"), "gpu-2"),
    (Ask("/host", host="ONE.example.org:8080"), "gpu-2"),
    (Ask("/host", host="a.b.wild.example.org"), "gpu-2"),
    (Ask("/host", host="wild.example.org"), ""),
    (Ask("/host", host="two.example.org"), ""),
    (Ask("/header", headers={"X-Tier": "batch"}), "gpu-2"),
    (Ask("/header", headers={"x-tier": "batch"}, method="POST", body=b"x"), "gpu-1"),
    (Ask("/header", headers={"X-Tier": "Batch"}), "gpu-0"),
    (Ask("/header", headers={"X-Tier": "batches"}), "gpu-0"),
    (Ask("/header"), "gpu-0"),
    (Ask("/method", method="POST", body=b"x"), "gpu-0"),
    (Ask("/method", method="PUT", body=b"x"), "gpu-0"),
    (Ask("/method", method="DELETE"), ""),
    (Ask("/method"), ""),
)


@pytest.mark.parametrize(("ask", "server"), TAKEN, ids=lambda value: str(value) or "none")
def test_a_request_takes_the_most_specific_route(edge: Edge, ask: Ask, server: str) -> None:
    got = edge.same(ask)
    assert got.server == server
    assert got.status == (200 if server else 404)


def test_headers_are_set_and_removed(edge: Edge) -> None:
    given = {"X-Debug": "1", "X-Secret": "2", "X-Other": "3", "X-Both": "client"}
    got = edge.same(Ask("/gpt/x", headers=given))
    assert [got.sent(name) for name in ("x-debug", "x-secret", "x-other")] == [None, None, "3"]
    assert [got.sent(name) for name in ("x-pool", "x-both", "x-route")] == ["gpt", "route", "a b"]


def test_the_host_header_is_the_clients_or_the_pools(edge: Edge) -> None:
    assert edge.same(Ask("/keep", host=f"{HOST}:8080")).sent("host") == f"{HOST}:8080"
    assert edge.same(Ask("/named")).sent("host") == "inference.internal"


FIXED = (
    ("/v1/models", 200, "application/json", b'{"object":"list","data":[]}'),
    ("/v1/models?limit=1", 200, "application/json", b'{"object":"list","data":[]}'),
    ("/gone", 410, "text/html", b"gone; $away {%}"),
    ("/empty/x", 204, None, b""),
)


@pytest.mark.parametrize(("path", "status", "kind", "body"), FIXED)
def test_fixed_answers(edge: Edge, path: str, status: int, kind: str | None, body: bytes) -> None:
    got = edge.each(Ask(path))
    for answer in got.values():
        assert (answer.status, answer.body) == (status, body)
        assert not body or answer.headers["content-type"] == kind


@pytest.mark.parametrize("size", [0, 1, 20_000, 300_000])
def test_a_body_arrives_whole(edge: Edge, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    got = edge.same(Ask("/keep", "POST", body=body))
    assert got.seen["body_bytes"] == size
    assert got.seen["body_sha256"] == hashlib.sha256(body).hexdigest()


def test_a_split_shares_requests_out(edge: Edge) -> None:
    for balancer in edge.balancers.values():
        servers = Counter(send(balancer.address, 8080, Ask("/split")).server for _ in range(60))
        assert servers.keys() == {"gpu-0", "gpu-2"}
        assert min(servers.values()) >= 10, servers  # of 60: less than once in 100 million runs


def test_a_sticky_split_keeps_users_where_they_are(edge: Edge) -> None:
    for balancer in edge.balancers.values():
        places = []
        for user in range(20):
            ask = Ask("/", headers={"X-User": f"user-{user}"})
            found = {send(balancer.address, STICKY, ask).server for _ in range(3)}
            assert len(found) == 1
            places.append(found.pop())
        assert len(set(places)) == 2


def chat(model: object, padding: int = 0, **fields: object) -> bytes:
    """Return a request's body, `padding` bytes of it before the model."""
    return json.dumps({"messages": [{"content": "x" * padding}], "model": model, **fields}).encode()


@pytest.mark.parametrize("status", BARE)
def test_an_answer_without_a_text_has_none(edge: Edge, status: int) -> None:
    for got in edge.each(Ask(f"/bare/{status}")).values():
        assert (got.status, got.body) == (status, b"")


BY_MODEL = (
    (chat("small"), "gpu-0", ""),
    (chat("big-1"), "gpu-1", ""),
    (chat("small", messages=[{"content": 'the "model": "big"'}]), "gpu-0", ""),
    (b'{"model" : "small" }', "gpu-0", ""),
    (chat("small", 20_000), "gpu-0", ""),
    (chat("Small"), "", "model_not_found"),
    (chat("smaller"), "", "model_not_found"),
    (chat("small", 60_000), "", "model_not_readable"),
)


@pytest.mark.parametrize(("body", "server", "code"), BY_MODEL)
def test_models_lead_to_their_pools(edge: Edge, body: bytes, server: str, code: str) -> None:
    got = edge.same(Ask("/v1/chat/completions", "POST", JSON, body), MODELS)
    assert got.server == server
    if code:
        assert (got.code, got.status) == (code, {"model_not_found": 404, "model_not_readable": 413}[code])
    else:
        assert got.seen["body_sha256"] == hashlib.sha256(body).hexdigest()


def test_a_body_without_a_model_leads_nowhere(edge: Edge) -> None:
    for body in (b"{}", b"no JSON", b'{"model": 7}'):
        got = edge.each(Ask("/v1/chat/completions", "POST", JSON, body), MODELS)
        assert {answer.status for answer in got.values()} <= {400, 404, 413}, got


def test_balancers_start_without_warnings(edge: Edge) -> None:
    for name, balancer in edge.balancers.items():
        words = ("[warn]", "[emerg]") if name == "nginx" else ("[WARNING]", "[ALERT]")
        assert not [line for line in balancer.logs().splitlines() if any(word in line for word in words)]
