"""What single keys of a fleet file become in Envoy's files, read as YAML."""

from __future__ import annotations

import json

import pytest

from tests.targets.envoy.values import POOLS, VERSION, listener, values
from tests.targets.loaded import refused


def test_browsers_may_send_what_the_clients_of_openai_and_anthropic_send() -> None:
    """Their SDKs' own headers (openai-node, anthropic-sdk-typescript), where a fleet names none."""
    (allowed,) = values(listener(cors={"origins": ["https://a.org"]}), "allow_headers")
    sent = {
        "authorization", "content-type", "accept", "x-api-key", "openai-beta", "openai-organization",
        "openai-project", "anthropic-beta", "anthropic-version", "anthropic-dangerous-direct-browser-access",
        "x-request-id", "x-session-id", "x-stainless-helper-method",
        *(f"x-stainless-{name}" for name in (
            "arch", "lang", "os", "package-version", "retry-count", "runtime", "runtime-version", "timeout")),
    }  # fmt: skip
    assert sent <= set(allowed.split(", "))
    assert values(listener(cors={"origins": ["https://a.org"], "headers": ["X-A"]}), "allow_headers") == [
        "X-A"
    ]


@pytest.mark.parametrize("ca", ["ca.pem", None])
def test_a_client_without_a_certificate_is_refused_where_one_is_asked_for(ca: str | None) -> None:
    tls = {"certificate": "c.pem", "key": "k.pem", **({"client_ca": ca} if ca else {})}
    assert values(listener(tls=tls), "require_client_certificate") == ([{"value": True}] if ca else [])


@pytest.mark.parametrize(
    ("pool", "route", "seconds"),
    [({}, {}, "3600s"), ({"tunnel": "2h"}, {}, "7200s"), ({"tunnel": "2h"}, {"tunnel": "3h"}, "10800s")],
)
def test_a_tunnel_may_be_silent_as_long_as_the_route_or_else_the_pool_says(
    pool: dict[str, str], route: dict[str, str], seconds: str
) -> None:
    fleet = {
        "pools": {"chat": {**POOLS["chat"], "timeouts": pool}},
        **listener(routes=[{"path": "/ws", "websocket": True, "pool": "chat", "timeouts": route}]),
    }
    actions = values(fleet, "route")
    assert [one["idle_timeout"] for one in actions if "upgrade_configs" in one] == [seconds]


@pytest.mark.parametrize(("rate", "doors", "number"), [("5/s", 2, 1), ("5/s", 1, 0), (None, 2, 0)])
def test_a_rate_at_several_doors_is_said_to_be_counted_at_each(
    rate: str | None, doors: int, number: int
) -> None:
    text = json.dumps({
        "pools": POOLS,
        "clients": {"a": {"key": "env:A", **({"rate": rate} if rate else {})}},
        "listeners": {f"l{n}": {"bind": str(8080 + n), "auth": {"clients": "all"}} for n in range(doors)},
    })  # fmt: skip
    assert len([one for one in refused(text, "envoy", VERSION) if "each listener" in one.message]) == number


def test_a_certificate_is_shown_to_servers_that_ask_for_one() -> None:
    tls = {"ca": "ca.pem", "certificate": "c.pem", "key": "k.pem"}
    (pair,) = values({"pools": {"chat": {**POOLS["chat"], "tls": tls}}}, "tls_certificates")
    assert [(one["certificate_chain"], one["private_key"]) for one in pair] == [
        ({"filename": "/etc/envoy/c.pem"}, {"filename": "/etc/envoy/k.pem"})
    ]
