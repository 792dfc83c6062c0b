"""Public reports about caps, weights and queues, as fleet files."""

from __future__ import annotations

import pytest

from tests.reports.reading import LOCAL, chat, codes, errors, fleet_text, problems, verdicts


def test_a_cap_of_nothing() -> None:
    """`maxconn 0` is no limit to HAProxy: 0 is refused rather than guessed at."""
    assert errors(fleet_text("max_in_flight: 0")) == ["max_in_flight: 0"]


def test_a_cap_on_nginx_has_no_queue_behind_it() -> None:
    """Every server full is an answer at once there (openQA PR#5278)."""
    found = verdicts(fleet_text("max_in_flight: 1", target="nginx: {}"))
    assert [(problem.code, problem.severity) for problem in found] == [("target-degraded", "warning")]
    assert "503" in found[0].message
    assert verdicts(fleet_text("max_in_flight: 1")) == []


def test_one_server_in_several_pools() -> None:
    """Three backends with `maxconn 100` on one Ollama let 300 in."""
    pools = "".join(
        f"  {name}:\n    max_in_flight: 100\n    servers: [10.0.0.5:11434]\n" for name in ("one", "two")
    )
    routes = "    routes:\n      - {path: /api/chat, pool: one}\n      - {pool: two}\n"
    found = problems(
        f"pools:\n{pools}listeners:\n  local:\n    {LOCAL}\n{routes}targets: {{haproxy: {{}}}}\n"
    )
    assert [problem.code for problem in found] == ["shared-address"]
    assert "200" in found[0].message


@pytest.mark.parametrize("weight", ["257", "-1", "1.5", "'2'", "0x10", "010", "1_0", "true"])
def test_what_is_no_weight(weight: str) -> None:
    """NGINX refuses 0 and 1.5, HAProxy 257 (nginx#191)."""
    text = fleet_text(servers=f"servers:\n  - address: gpu-0:8000\n    weight: {weight}")
    assert errors(text) == [f"weight: {weight}"]


@pytest.mark.parametrize("weight", [0, 1, 256])
def test_what_is_a_weight(weight: int) -> None:
    text = fleet_text(servers=f"servers:\n  - gpu-1:8000\n  - address: gpu-0:8000\n    weight: {weight}")
    assert chat(text).servers[1].weight == weight


def test_nobody_has_weight() -> None:
    text = fleet_text(servers="servers:\n  - {address: 'gpu-[0-3]:8000', weight: 0}")
    assert "zero-weights" in codes(text)


@pytest.mark.parametrize("written", ["servers: []", "servers:", "discover: {file: nosuch.json}"])
def test_an_empty_pool(written: str) -> None:
    """NGINX does not start, HAProxy answers 503 (docker-gen#196)."""
    assert errors(fleet_text(servers=written)) != []


def test_an_empty_pool_on_purpose() -> None:
    assert chat(fleet_text(servers="allow_empty: true\nservers: []")).servers == ()


@pytest.mark.parametrize(
    ("target", "warns"),
    [
        ("haproxy: {max_connections: 500}", True),
        ("haproxy: {max_connections: 600}", False),
        ("nginx: {workers: 2, connections: 500, without: [max_in_flight]}", True),
        ("nginx: {workers: 4, connections: 500, without: [max_in_flight]}", False),
        ("nginx: {connections: 64, without: [max_in_flight]}", True),
    ],
)
def test_fewer_connections_than_streams(target: str, warns: bool) -> None:
    """`worker_connections 4` passes `nginx -t` (a public fleet)."""
    assert ("too-few-connections" in codes(fleet_text("max_in_flight: 300", target=target))) == warns
