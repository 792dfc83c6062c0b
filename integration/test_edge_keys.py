"""Clients and their keys: who comes in, what the servers see of the key, and where it never shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from integration.edge import Ask
from integration.fleets import THREE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from integration.edge import Edge, Got

TRIES = THREE
STRIP, PASS, SET, OWN_HEADER, EXEMPT, OPEN = range(8080, 8086)
SECRETS = {
    "OLD": "sk-Old.Key+1/=",
    "NEW": "sk-NewKey-2",
    "BATCH": "sk-batch$3{}",
    "ENGINE": "engine-Key-4",
    "LIMITED": "sk-limited-5",
}
MAIN = [{"pool": "main"}]

FLEET: dict[str, Any] = {
    "pools": {
        "main": {"engine": "vllm", "servers": ["gpu-0:8000"]},
        "other": {"engine": "vllm", "servers": ["gpu-1:8000"]},
    },
    "clients": {
        "team-a": {"keys": ["env:OLD", "env:NEW"]},
        "batch": {"key": "env:BATCH"},
        "limited": {"key": "env:LIMITED", "pools": ["other"]},
    },
    "listeners": {
        "strip": {
            "bind": str(STRIP),
            "auth": {"clients": "all"},
            "cors": {"origins": ["https://chat.example.org"]},
            "routes": [{"path": "/other", "pool": "other"}, *MAIN],
        },
        "pass": {"bind": str(PASS), "auth": {"clients": "all", "upstream": "pass"}, "routes": MAIN},
        "set": {
            "bind": str(SET),
            "auth": {"clients": "all", "upstream": {"set": "env:ENGINE"}},
            "routes": MAIN,
        },
        "own": {
            "bind": str(OWN_HEADER),
            "auth": {"clients": ["team-a"], "header": "X-Team-Key"},
            "routes": MAIN,
        },
        "exempt": {
            "bind": str(EXEMPT),
            "auth": {"clients": "all", "except": ["10.0.0.0/8"]},
            "routes": MAIN,
        },
        "open": {"bind": str(OPEN), "auth": "none", "routes": MAIN},
    },
}


def bearer(name: str, scheme: str = "Bearer") -> dict[str, str]:
    return {"Authorization": f"{scheme} {SECRETS[name]}"}


WELCOME: tuple[tuple[int, Mapping[str, str]], ...] = (
    (STRIP, bearer("OLD")),
    (STRIP, bearer("NEW")),
    (STRIP, bearer("BATCH")),
    (STRIP, bearer("OLD", "bearer")),
    (STRIP, {"X-Api-Key": SECRETS["OLD"]}),
    (STRIP, {"x-api-key": SECRETS["BATCH"], "Authorization": "Basic dXNlcjpwYXNz"}),
    (PASS, bearer("OLD")),
    (SET, bearer("OLD")),
    (OWN_HEADER, {"X-Team-Key": SECRETS["NEW"]}),
    (EXEMPT, {}),
    (OPEN, {}),
)
REFUSED: tuple[tuple[int, Mapping[str, str]], ...] = (
    (STRIP, {}),
    (STRIP, {"Authorization": ""}),
    (STRIP, {"Authorization": "Bearer"}),
    (STRIP, {"Authorization": "Bearer " + SECRETS["OLD"].upper()}),
    (STRIP, {"Authorization": "Bearer " + SECRETS["OLD"].lower()}),
    (STRIP, {"Authorization": f"Bearer {SECRETS['OLD']}x"}),
    (STRIP, {"Authorization": f"Bearer {SECRETS['OLD'][:-1]}"}),
    (STRIP, {"Authorization": SECRETS["OLD"]}),
    (STRIP, {"Authorization": f"Basic {SECRETS['OLD']}"}),
    (STRIP, {"Authorization": f"Bearer {SECRETS['ENGINE']}"}),
    (STRIP, {"X-Api-Key": SECRETS["BATCH"].swapcase()}),
    (PASS, {"Authorization": "Bearer none"}),
    (SET, {"Authorization": f"Bearer {SECRETS['ENGINE']}"}),
    (OWN_HEADER, {"X-Team-Key": SECRETS["BATCH"]}),
    (OWN_HEADER, bearer("NEW")),
)


@pytest.mark.parametrize(("port", "headers"), WELCOME)
def test_a_known_key_comes_in(edge: Edge, port: int, headers: Mapping[str, str]) -> None:
    assert edge.same(Ask("/v1/models", headers=headers), port).status == 200


@pytest.mark.parametrize(("port", "headers"), REFUSED)
def test_all_else_is_refused_as_json(edge: Edge, port: int, headers: Mapping[str, str]) -> None:
    got = edge.same(Ask("/v1/models", headers=headers), port)
    assert (got.status, got.code, got.server) == (401, "invalid_api_key", "")
    assert got.headers["www-authenticate"] == "Bearer"


def test_a_client_keeps_to_its_pools(edge: Edge) -> None:
    assert edge.same(Ask("/other", headers=bearer("LIMITED"))).server == "gpu-1"
    got = edge.same(Ask("/", headers=bearer("LIMITED")))
    assert (got.status, got.code) == (403, "forbidden")


@pytest.mark.parametrize("path", ["/lb/live", "/lb/ready"])
def test_probes_need_no_key(edge: Edge, path: str) -> None:
    for port in (STRIP, PASS, SET, OWN_HEADER):
        assert {got.status for got in edge.each(Ask(path), port).values()} == {200}


def test_a_preflight_needs_no_key(edge: Edge) -> None:
    headers = {"Origin": "https://chat.example.org", "Access-Control-Request-Method": "POST"}
    assert edge.same(Ask("/v1/models", "OPTIONS", headers)).status == 204
    # Where nobody here answers preflights, they are requests as any other.
    assert edge.same(Ask("/v1/models", "OPTIONS", headers), PASS).status == 401
    assert edge.same(Ask("/v1/models", "OPTIONS")).status == 401


ONWARD = (
    (STRIP, bearer("OLD"), None, None),
    (STRIP, {"X-Api-Key": SECRETS["OLD"]}, None, None),
    (PASS, bearer("OLD"), f"Bearer {SECRETS['OLD']}", None),
    (PASS, {"X-Api-Key": SECRETS["OLD"]}, None, SECRETS["OLD"]),
    (SET, bearer("OLD"), f"Bearer {SECRETS['ENGINE']}", None),
    (SET, {"X-Api-Key": SECRETS["OLD"]}, f"Bearer {SECRETS['ENGINE']}", None),
    (OPEN, bearer("OLD"), f"Bearer {SECRETS['OLD']}", None),
)


@pytest.mark.parametrize(("port", "headers", "authorization", "api_key"), ONWARD)
def test_what_the_server_sees_of_the_key(
    edge: Edge, port: int, headers: Mapping[str, str], authorization: str | None, api_key: str | None
) -> None:
    got = edge.same(Ask("/v1/models", headers=headers), port)
    assert (got.sent("authorization"), got.sent("x-api-key")) == (authorization, api_key)


def test_a_key_of_its_own_header_is_stripped(edge: Edge) -> None:
    got = edge.same(Ask("/v1/models", headers={"X-Team-Key": SECRETS["NEW"]}), OWN_HEADER)
    assert got.sent("x-team-key") is None


def test_keys_stand_in_secret_files_alone(edge: Edge) -> None:
    for target, files in edge.rendered.items():
        for file in files:
            shown = [name for name, value in SECRETS.items() if value in file.text]
            if target == "haproxy" and "clients" in file.path:
                assert not shown, "HAProxy compares digests"
            assert file.secret or not shown, (file.path, shown)
        assert any(file.secret for file in files)


def test_keys_never_reach_the_log(edge: Edge) -> None:
    query = f"/v1/models?key={SECRETS['NEW']}"
    for headers in (bearer("OLD"), {"X-Api-Key": SECRETS["BATCH"]}, {"Authorization": "Bearer wrong-key"}):
        edge.each(Ask(query, headers=headers))
    for balancer in edge.balancers.values():
        text = balancer.logs()
        entries = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        assert ("/v1/models", "team-a") in {(entry["path"], entry["client"]) for entry in entries}
        assert not [value for value in (*SECRETS.values(), "wrong-key") if value in text]


def test_errors_never_say_the_key(edge: Edge) -> None:
    answers: list[Got] = []
    for headers in ({"Authorization": "Bearer some-key"}, {"X-Api-Key": "some-key"}):
        answers += edge.each(Ask("/v1/models", headers=headers)).values()
    assert not [got for got in answers if b"some-key" in got.body or "some-key" in str(got.headers)]
