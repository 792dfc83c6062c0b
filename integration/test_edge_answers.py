"""What clients get beside the server's body: CORS, headers that are set and removed, and who gets nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from integration.edge import Ask
from integration.fleets import THREE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from integration.edge import Edge

TRIES = THREE
CORS, COOKIES, ANY, CHANGED, ALLOWED, DENIED, KEYED = range(8080, 8087)
ORIGIN = "https://chat.example.org"
SECRETS = {"TOKEN": "tok$en-1", "KEY": "sk-one"}
DOCKER = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8"]
MAIN = [{"pool": "main"}]

FLEET: dict[str, Any] = {
    "pools": {
        "main": {
            "servers": ["gpu-0:8000"],
            "response_headers": {
                "set": {"X-Level": "pool", "Cache-Control": "no-store", "X-Money": "5% of $10"},
                "remove": ["X-Powered-By"],
            },
        },
        "empty": {"servers": [], "allow_empty": True, "response_headers": {"set": {"X-Level": "pool"}}},
        "plain": {"servers": ["gpu-1:8000"]},
    },
    "clients": {"one": {"key": "env:KEY"}},
    "listeners": {
        "cors": {
            "bind": str(CORS),
            "auth": "none",
            "cors": {"origins": [ORIGIN], "expose": ["Mcp-Session-Id", "X-Usage"]},
            "routes": MAIN,
        },
        "cookies": {
            "bind": str(COOKIES),
            "auth": "none",
            "cors": {
                "origins": [ORIGIN, "http://localhost:3000"],
                "methods": ["GET", "POST"],
                "headers": ["Authorization", "Content-Type"],
                "credentials": True,
                "max_age": "10m",
            },
            "routes": MAIN,
        },
        "any": {"bind": str(ANY), "auth": "none", "cors": {"origins": ["*"]}, "routes": MAIN},
        "changed": {
            "bind": str(CHANGED),
            "auth": "none",
            "response_headers": {
                "set": {"X-Level": "listener", "X-Every": "env:TOKEN", "Retry-After": "7"},
                "remove": ["X-Secret", "Set-Cookie"],
            },
            "routes": [
                {"path": "/route", "pool": "main", "response_headers": {
                    "set": {"X-Level": "route"}, "remove": ["Cache-Control", "X-Every"]}},
                {"path": "/fixed", "respond": {"status": 418, "body": "tea"},
                    "response_headers": {"set": {"X-Level": "fixed"}}},
                {"path": "/plain", "pool": "plain"},
                {"path": "/empty", "pool": "empty"},
                {"path": "/main", "pool": "main"},
            ],
        },
        "allowed": {
            "bind": str(ALLOWED),
            "auth": "none",
            "trusted_proxies": DOCKER,
            "allow": ["203.0.113.0/24", "2001:db8::/32"],
            "deny": ["203.0.113.66"],
            "cors": {"origins": [ORIGIN]},
            "routes": [{"model": "m", "pool": "main"}, *MAIN],
        },
        "denied": {
            "bind": str(DENIED),
            "auth": "none",
            "trusted_proxies": DOCKER,
            "deny": ["198.51.100.0/24"],
            "routes": MAIN,
        },
        "keyed": {
            "bind": str(KEYED),
            "auth": {"clients": "all"},
            "trusted_proxies": DOCKER,
            "allow": ["203.0.113.0/24"],
            "routes": MAIN,
        },
    },
}  # fmt: skip

PREFLIGHT = {
    "Origin": ORIGIN,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
}
EXPOSED_BY_SERVER = {"Access-Control-Expose-Headers": "X-Engine", "Access-Control-Allow-Origin": "*"}


def test_what_is_exposed_is_told_beside_what_the_server_exposes(edge: Edge) -> None:
    got = edge.each(Ask("/", headers={"Origin": ORIGIN}, echo=EXPOSED_BY_SERVER), CORS)
    for answer in got.values():
        exposed = answer.headers["access-control-expose-headers"].split(",")
        assert sorted(name.strip() for name in exposed) == [
            "Mcp-Session-Id",
            "Retry-After",
            "X-Engine",
            "X-Request-Id",
            "X-Usage",
        ]
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert "access-control-allow-credentials" not in answer.headers


def test_a_preflight_gets_what_the_listener_says(edge: Edge) -> None:
    assert edge.same(Ask("/", "OPTIONS", PREFLIGHT), COOKIES).status == 204
    for got in edge.each(Ask("/", "OPTIONS", PREFLIGHT), COOKIES).values():
        assert got.server == ""
        assert got.headers["access-control-allow-origin"] == ORIGIN
        assert got.headers["access-control-allow-methods"] == "GET, POST"
        assert got.headers["access-control-allow-headers"] == "Authorization, Content-Type"
        assert got.headers["access-control-allow-credentials"] == "true"
        assert got.headers["access-control-max-age"] == "600"


def test_without_headers_a_preflight_gets_what_it_asks_for(edge: Edge) -> None:
    got = edge.same(Ask("/", "OPTIONS", PREFLIGHT), CORS)
    assert got.headers["access-control-allow-headers"] == PREFLIGHT["Access-Control-Request-Headers"]
    assert got.headers["access-control-allow-methods"] == "GET, POST, PUT, PATCH, DELETE, OPTIONS"
    assert got.headers["access-control-max-age"] == "7200"


@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
@pytest.mark.parametrize("origin", ["https://evil.example", f"{ORIGIN}.evil.example", "null"])
def test_a_foreign_origin_gets_no_leave(edge: Edge, method: str, origin: str) -> None:
    got = edge.same(Ask("/", method, {**PREFLIGHT, "Origin": origin}), COOKIES)
    assert not {name for name in got.headers if name.startswith("access-control-allow")}


def test_with_credentials_the_answers_say_so_too(edge: Edge) -> None:
    got = edge.same(Ask("/", headers={"Origin": "http://localhost:3000"}), COOKIES)
    assert got.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert got.headers["access-control-allow-credentials"] == "true"
    assert got.headers["vary"] == "Origin"


def test_any_origin_is_a_star(edge: Edge) -> None:
    assert edge.same(Ask("/", headers={"Origin": ORIGIN}), ANY).headers["access-control-allow-origin"] == "*"


FROM_SERVER = {
    "X-Level": "server",
    "X-Powered-By": "Express",
    "X-Secret": "s3cret",
    "Set-Cookie": "a=b",
    "Cache-Control": "public",
    "X-Kept": "yes",
}


@pytest.mark.parametrize(
    ("path", "level", "cache", "every"),
    [
        ("/main", "pool", "no-store", "tok$en-1"),
        ("/route", "route", None, None),
        ("/plain", "listener", "public", "tok$en-1"),
    ],
)
def test_the_closest_says_what_a_client_gets(
    edge: Edge, path: str, level: str, cache: str | None, every: str | None
) -> None:
    edge.same(Ask(path, echo=FROM_SERVER), CHANGED)
    for answer in edge.each(Ask(path, echo=FROM_SERVER), CHANGED).values():
        got = answer.headers
        assert (got["x-level"], got.get("cache-control"), got.get("x-every")) == (level, cache, every)
        assert "x-secret" not in got
        assert "set-cookie" not in got
        assert got["x-kept"] == "yes"
        assert ("x-powered-by" in got) is (path == "/plain")
        assert got.get("x-money") == (None if path == "/plain" else "5% of $10")


@pytest.mark.parametrize(
    ("path", "status", "level"),
    [("/fixed", 418, "fixed"), ("/nowhere", 404, "listener"), ("/empty", 503, "listener"),
        ("/%zz", 400, "listener")],
)  # fmt: skip
def test_the_listeners_headers_are_on_its_own_answers(edge: Edge, path: str, status: int, level: str) -> None:
    got = edge.same(Ask(path), CHANGED)
    assert (got.status, got.headers["x-level"], got.headers["retry-after"]) == (status, level, "7")
    assert got.headers["x-every"] == "tok$en-1"


def sent_from(address: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {"X-Forwarded-For": address, **(more or {})}


@pytest.mark.parametrize(
    ("port", "address", "status"),
    [
        (ALLOWED, "203.0.113.5", 200),
        (ALLOWED, "2001:db8::7", 200),
        (ALLOWED, "203.0.113.66", 403),
        (ALLOWED, "203.0.114.5", 403),
        (ALLOWED, "203.0.113.5, 8.8.8.8", 403),
        (ALLOWED, "203.0.113.5, unknown", 403),
        (ALLOWED, "203.0.113.5, ", 403),
        (ALLOWED, "2001:db9::7", 403),
        (DENIED, "198.51.100.1", 403),
        (DENIED, "198.51.101.1", 200),
        (DENIED, "203.0.113.5, 198.51.100.255", 403),
        (KEYED, "203.0.113.5", 401),
        (KEYED, "8.8.8.8", 403),
    ],
)
def test_addresses_are_let_in_or_not(edge: Edge, port: int, address: str, status: int) -> None:
    got = edge.same(Ask("/", headers=sent_from(address)), port)
    assert got.status == status
    if status == 403:
        assert (got.code, got.server) == ("address_not_allowed", "")


def test_without_a_proxy_the_address_of_the_connection_counts(edge: Edge) -> None:
    assert edge.same(Ask("/"), ALLOWED).status == 403
    assert edge.same(Ask("/"), DENIED).status == 200


def test_who_may_not_come_is_told_so_before_the_body_is_read(edge: Edge) -> None:
    # A body is announced and never sent; a preflight is no way in.
    ask = Ask("/v1/chat/completions", "POST", sent_from("8.8.8.8", {"Content-Length": "1000000"}))
    assert edge.same(ask, ALLOWED).status == 403
    preflight = edge.same(Ask("/", "OPTIONS", sent_from("8.8.8.8", PREFLIGHT)), ALLOWED)
    assert preflight.status == 403


@pytest.mark.parametrize("path", ["/lb/live", "/lb/ready"])
def test_probes_come_from_anywhere(edge: Edge, path: str) -> None:
    assert edge.each(Ask(path), ALLOWED)["nginx"].status == 200
    assert edge.each(Ask(path), ALLOWED)["haproxy"].status == 200
