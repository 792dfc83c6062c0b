"""Paths and names that clients know and servers do not: prefixes that are stripped, proxies in front."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from integration.edge import HOST, Ask

if TYPE_CHECKING:
    from integration.edge import Edge, Got

PLAIN, BEHIND = 8080, 8081
ROUTES = [
    {"path": ["/ui", "/ui-2"], "strip_prefix": True, "pool": "main"},
    {"path": "/gpt", "strip_prefix": True, "add_prefix": "/v1", "pool": "named"},
    {"name": "rest", "pool": "main"},
]
FLEET: dict[str, Any] = {
    "pools": {
        "main": {"engine": "http", "servers": ["gpu-0:8000"]},
        "named": {"engine": "http", "servers": ["gpu-1:8000"], "host_header": "backend"},
    },
    "listeners": {
        "plain": {"bind": str(PLAIN), "routes": ROUTES},
        "behind": {"bind": str(BEHIND), "trusted_proxies": ["10.0.0.0/8"], "routes": ROUTES},
    },
}


@pytest.mark.parametrize(
    ("path", "sent", "got"),
    [
        ("/ui/x", "/login/?next=/", "/ui/login/?next=/"),
        ("/ui-2", "/", "/ui-2/"),
        ("/ui/x", "/uix", "/ui/uix"),
        ("/ui/x", "/ui/login", "/ui/login"),
        ("/ui/x", f"http://{HOST}/login", "/ui/login"),
        ("/ui/x", f"https://{HOST}/ui/login", "/ui/login"),
        ("/ui/x", "https://other.example/login", "https://other.example/login"),
        ("/ui/x", "//other.example/login", "//other.example/login"),
        ("/ui/x", "login", "login"),
        ("/gpt/x", "/v1/login", "/gpt/login"),
        ("/gpt/x", "/v1", "/v1"),
        ("/gpt/x", "/login", "/login"),
        ("/gpt/x", "http://gpu-1:8000/v1/login", "/gpt/login"),
        ("/gpt/x", f"http://{HOST}/v1/login", "/gpt/login"),
        ("/x", "/login", "/login"),
    ],
)
def test_redirects_stay_below_the_prefix(edge: Edge, path: str, sent: str, got: str) -> None:
    for port in (PLAIN, BEHIND):
        assert edge.same(Ask(path, echo={"Location": sent}), port).headers["location"] == got


@pytest.mark.parametrize(
    ("path", "sent", "got"),
    [
        ("/ui/x", "a=b; Path=/; HttpOnly", "a=b; Path=/ui; HttpOnly"),
        ("/ui/x", "a=b; HttpOnly; path=/x", "a=b; HttpOnly; path=/ui/x"),
        ("/ui/x", "a=b; Path=/ui; Secure", "a=b; Path=/ui; Secure"),
        ("/ui/x", "a=b; Path=/ui/x", "a=b; Path=/ui/x"),
        ("/ui/x", "a=b", "a=b"),
        ("/gpt/x", "a=b; Path=/v1", "a=b; Path=/gpt"),
        ("/gpt/x", "a=b; Path=/v1/x", "a=b; Path=/gpt/x"),
        ("/gpt/x", "a=b; Path=/", "a=b; Path=/"),
        ("/x", "a=b; Path=/", "a=b; Path=/"),
    ],
)
def test_cookies_stay_below_the_prefix(edge: Edge, path: str, sent: str, got: str) -> None:
    assert edge.same(Ask(path, echo={"Set-Cookie": sent})).headers["set-cookie"] == got


CLAIMED = {
    "X-Forwarded-For": "203.0.113.7",
    "X-Forwarded-Prefix": "/outer",
    "X-Forwarded-Host": "chat.example.org:8443",
    "X-Forwarded-Port": "8443",
    "X-Forwarded-Proto": "https",
}


def told(got: Got) -> dict[str, str | None]:
    return {name: got.sent(name.lower()) for name in CLAIMED if name != "X-Forwarded-For"}


def test_a_trusted_proxy_says_what_clients_asked_for(edge: Edge) -> None:
    got = edge.same(Ask("/ui/x", headers=CLAIMED), BEHIND)
    assert told(got) == {
        "X-Forwarded-Prefix": "/outer/ui",
        "X-Forwarded-Host": "chat.example.org:8443",
        "X-Forwarded-Port": "8443",
        "X-Forwarded-Proto": "https",
    }
    got = edge.same(Ask("/x", headers=CLAIMED), BEHIND)
    assert got.sent("x-forwarded-prefix") == "/outer"


def test_servers_may_redirect_to_the_public_name(edge: Edge) -> None:
    ask = Ask("/ui/x", headers=CLAIMED, echo={"Location": "https://chat.example.org:8443/login"})
    assert edge.same(ask, BEHIND).headers["location"] == "/ui/login"


def test_others_say_nothing(edge: Edge) -> None:
    got = edge.same(Ask("/ui/x", headers=CLAIMED), PLAIN)
    assert told(got) == {
        "X-Forwarded-Prefix": "/ui",
        "X-Forwarded-Host": HOST,
        "X-Forwarded-Port": None,
        "X-Forwarded-Proto": "http",
    }


@pytest.mark.parametrize("name", ["a b", "a/b", "a.example, b.example", "<script>", ""])
def test_what_is_no_name_is_not_believed(edge: Edge, name: str) -> None:
    got = edge.same(Ask("/x", headers={"X-Forwarded-Host": name}), BEHIND)
    assert got.sent("x-forwarded-host") == HOST
