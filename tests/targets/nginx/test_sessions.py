"""How NGINX keeps sessions, by version, and what it says of promises that it cannot keep."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render


def loaded(strategy: str, version: str, more: str = ""):
    pool = f"engine: http, strategy: {{name: session, {strategy}}}, servers: 'gpu-[0-3]:80'{more}"
    source = Source("fleet.yaml", f"pools:\n  chat: {{{pool}}}\n")
    return load([source], environ={}, targets=("nginx",), versions={"nginx": version})


def upstream(strategy: str, version: str, more: str = "") -> list[str]:
    text = render(loaded(strategy, version, more).fleet, "nginx")[0].text
    return [line.strip() for line in text.partition("upstream chat {")[2].partition("}")[0].splitlines()]


def said(strategy: str, version: str, more: str = "") -> list[tuple[str, str]]:
    problems = loaded(strategy, version, more).problems
    return [(one.code, ".".join(map(str, one.path))) for one in problems if one.code.startswith("target-")]


def test_versions_that_remember_keep_hashed_sessions_in_place() -> None:
    lines = upstream("strict: true", "1.30")
    name = "$http_x_session_id"
    assert f"hash {name} consistent;" in lines
    assert f"sticky learn create={name} lookup={name} zone=chat-session:16m timeout=8h header;" in lines
    assert not any("sticky" in line for line in upstream("header: X-Session-Id", "1.30"))
    assert not any("sticky" in line for line in upstream("strict: true", "1.22"))


def test_learned_sessions_spread_by_load() -> None:
    lines = upstream("learn: {header: Mcp-Session-Id}", "1.30")
    assert "least_conn;" in lines
    assert any("create=$upstream_http_mcp_session_id lookup=$http_mcp_session_id" in line for line in lines)


def test_an_older_version_makes_the_cookie_itself() -> None:
    text = render(loaded("insert: lb", "1.22").fleet, "nginx")[0].text
    assert 'default "lb=$request_id; Path=/; HttpOnly";' in text
    assert "add_header Set-Cookie $lb_if_" in text
    assert any(line.startswith("hash $lb_if_") for line in upstream("insert: lb", "1.22"))
    assert "sticky cookie lb path=/ httponly;" in upstream("insert: lb", "1.30")


def test_a_drained_server_goes_on_with_its_sessions_where_nginx_can() -> None:
    servers = ", servers: [{address: 'gpu-0:80', state: drain}, 'gpu-1:80']"
    for version, word in (("1.30", "drain"), ("1.22", "down")):
        text = f"pools:\n  chat: {{engine: http, strategy: {{name: session, strict: true}}{servers}}}\n"
        fleet = load(
            [Source("f.yaml", text)], environ={}, targets=("nginx",), versions={"nginx": version}
        ).fleet
        assert f"max_fails=0 {word};" in render(fleet, "nginx")[0].text


@pytest.mark.parametrize(
    ("strategy", "version", "more", "expected"),
    [
        ("learn: {header: X}", "1.22", "", [("target-refused", "pools.chat.strategy")]),
        ("learn: {header: X}", "1.30", "", []),
        ("strict: true", "1.22", "", [("target-degraded", "pools.chat.strategy.strict")]),
        ("strict: true", "1.30", "", []),
        ("insert: lb", "1.22", "", [("target-degraded", "pools.chat.strategy.insert")]),
        ("header: X", "1.22", "", []),
    ],
)
def test_what_a_version_cannot_promise(strategy: str, version: str, more: str, expected) -> None:
    assert said(strategy, version, more) == expected


@pytest.mark.parametrize("strategy", ["strict: true", "learn: {header: X}", "insert: lb"])
def test_a_promise_and_a_cap_exclude_each_other(strategy: str) -> None:
    key = strategy.partition(":")[0]
    assert ("target-refused", f"pools.chat.strategy.{key}") in said(strategy, "1.30", ", max_in_flight: 8")
