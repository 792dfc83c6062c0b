"""Public reports about time, as fleet files."""

from __future__ import annotations

import pytest

from tests.reports.reading import chat, codes, errors, fleet_text, problems


@pytest.mark.parametrize("key", ["first_byte", "idle"])
@pytest.mark.parametrize("written", ["60s", "30s", "50000ms", "299s"])
def test_a_read_timeout_of_a_minute_is_named(key: str, written: str) -> None:
    """504 at 60 s, and the client's retries burn the GPU three times (singnet/Omega PR#351; haproxy#182)."""
    assert "short-read-timeout" in codes(fleet_text(f"timeouts: {{{key}: {written}}}"))


def test_embeddings_may_have_a_short_one() -> None:
    assert "short-read-timeout" not in codes(
        fleet_text("engine: tei\ntimeouts: {first_byte: 60s, idle: 60s}")
    )


@pytest.mark.parametrize(("written", "milliseconds"), [("600", 600_000), ("10m", 600_000), ("600s", 600_000)])
def test_a_number_without_a_unit_is_seconds(written: str, milliseconds: int) -> None:
    """`timeout server 60` is 60 ms to HAProxy, and 60 s to NGINX (ansible-lxc-rpc#320)."""
    pool = chat(fleet_text(f"timeouts: {{first_byte: {written}, idle: {written}}}"))
    assert pool.timeouts.first_byte == milliseconds


@pytest.mark.parametrize(
    "written", ["30d", "1.5s", "1.5", "soon", "10min", "-5s", "999999999999s", "''", "true"]
)
def test_what_is_no_duration_is_refused(written: str) -> None:
    text = fleet_text(f"timeouts:\n  first_byte: {written}")
    assert errors(text) == [f"first_byte: {written}"]


def test_idle_connections_longer_than_the_engines() -> None:
    """502 on POST through a connection that uvicorn has just closed (llm-d PR#1564)."""
    found = problems(fleet_text("engine: vllm\nkeepalive: {idle_timeout: 60s}"))
    assert [problem.code for problem in found] == ["keepalive-outlives-engine"]
    assert "5s" in found[0].message
    assert "4s" in found[0].hint
    assert chat(fleet_text("engine: vllm")).keepalive.idle_timeout == 4_000  # type: ignore[union-attr]


def test_a_server_ejected_for_hours() -> None:
    """`fail_timeout=10000s` of vLLM's sample: every request 502, with both servers healthy (nginx#524)."""
    found = problems(fleet_text("passive_health: {failures: 3, window: 10000s}"))
    assert [(problem.code, problem.severity) for problem in found] == [("failure-window", "error")]
    assert "2 h 46 min" in found[0].message


@pytest.mark.parametrize(("window", "severities"), [("60s", []), ("61s", ["warning"]), ("601s", ["error"])])
def test_the_failure_window_by_length(window: str, severities: list[str]) -> None:
    found = problems(fleet_text(f"passive_health: {{failures: 3, window: {window}}}"))
    assert [problem.severity for problem in found] == severities


def test_a_reload_that_cuts_streams() -> None:
    """Old processes that are ended after seconds (bunkerweb#3153, nginx-gateway-fabric#5524)."""
    assert codes(fleet_text(target="haproxy: {drain_timeout: 30s}")) == ["drain-cuts-answers"]
    assert codes(fleet_text(target="haproxy: {drain_timeout: 10m}")) == []
