"""Public reports about paths, bodies, headers and who may call, as fleet files."""

from __future__ import annotations

import pytest

from tests.reports.reading import codes, errors, fleet_text, problems, read

PUBLIC = "bind: 0.0.0.0:8080"


@pytest.mark.parametrize(
    ("written", "size"), [("50MB", 50 << 20), ("50MiB", 50 << 20), ("50m", 50 << 20), ("1048577", 1048577)]
)
def test_sizes_as_people_write_them(written: str, size: int) -> None:
    """`client_max_body_size 50MB` is invalid to NGINX (open-webui#3026)."""
    assert read(fleet_text(listener=f"max_body: {written}")).listeners[0].max_body == size


@pytest.mark.parametrize("written", ["50 elephants", "-1", "1.5GiB", "lots"])
def test_what_is_no_size(written: str) -> None:
    assert errors(fleet_text(listener=f"max_body: {written}")) == [f"max_body: {written}"]


def test_stripping_what_the_engine_needs() -> None:
    """`/chat/completions` is 404 on vLLM (vllm#10172); LiteLLM knows it (litellm#13575)."""
    route = "routes:\n  - {path: /v1, pool: chat, strip_prefix: true}"
    assert codes(fleet_text("engine: vllm", route)) == ["strip-version"]
    assert codes(fleet_text("engine: litellm", route)) == []
    assert codes(fleet_text("engine: vllm", route.replace("true}", "true, add_prefix: /v1}"))) == []


def test_a_header_that_nginx_drops() -> None:
    """`api_key` vanishes there, with nothing in the log (opta PR#50): the rendered files let it in."""
    route = "routes:\n  - {header: {api_key: x}, pool: chat}\n  - {pool: chat}"
    assert codes(fleet_text(listener=route, target="nginx: {}")) == []
    found = problems(fleet_text(listener=f"behind_proxy: true\n{route}", target="nginx: {}"))
    assert [problem.code for problem in found] == ["underscore-header"]
    assert "api-key" in found[0].hint


@pytest.mark.parametrize(
    ("secret", "code"),
    [
        *((text, "literal-secret") for text in ("sk-live-123", "admin123", "file:", "ENV:KEY", "${KEY}")),
        *((text, "bad-value") for text in ("env:", "env:1X")),
    ],
)
def test_keys_in_the_file(secret: str, code: str) -> None:
    """A key in clear is refused, and not repeated (klangk#1415)."""
    text = fleet_text(listener="auth: {clients: all}") + f"clients:\n  team:\n    key: '{secret}'\n"
    found = problems(text, {"KEY": "sk-live-456"})
    assert [problem.code for problem in found] == [code]
    assert not any(part in str(found[0]) for part in ("sk-live", "admin123"))


def test_a_metrics_page_open_to_the_world() -> None:
    """`stats auth admin:admin123` on every address; `/nginx_status` in public (vllm-cpu-perf-eval)."""
    start = fleet_text() + "metrics: "
    assert codes(start + "{bind: '0.0.0.0:8404'}\n") == ["open-metrics"]
    assert codes(start + "{bind: '0.0.0.0:8404', allow: [0.0.0.0/0]}\n") == ["open-metrics"]
    for closed in ("{bind: '127.0.0.1:8404'}", "{bind: 8404, allow: [10.0.0.0/8]}"):
        assert "open-metrics" not in codes(f"{start}{closed}\n")


@pytest.mark.parametrize("rate", ["600", "0/s", "10/d", "ten/s", "600/min", "-1/s", "1.5/s"])
def test_what_is_no_rate(rate: str) -> None:
    text = fleet_text(listener=f"limits:\n  - rate: {rate}")
    assert errors(text) == [f"- rate: {rate}"]


def test_limits_that_count_everybody_as_one() -> None:
    """Behind a proxy there is one address (ironclaw#6184)."""
    limits = "behind_proxy: true\nlimits:\n  - {rate: 600/m, per: ip}"
    assert codes(fleet_text(listener=limits)) == ["one-address-for-all"]
    assert codes(fleet_text(listener=f"trusted_proxies: 10.0.0.5\n{limits}")) == []


def test_compression_is_no_key() -> None:
    """Never for event streams; lbgen compresses nothing (project-nomad PR#798)."""
    assert codes(fleet_text(listener="compression: {types: [text/event-stream]}")) == ["unknown-key"]


def test_basic_auth_is_no_key() -> None:
    """Basic auth and the engine's Bearer key both need the one header (OpenHands#2559)."""
    assert "unknown-key" in codes(fleet_text(listener="auth: {basic: users.txt}"))


def test_grpc_needs_http2() -> None:
    """One connection is one replica without it (triton#6177)."""
    grpc = "engine: triton\nprotocol: grpc"
    assert codes(fleet_text(grpc, "http2: false")) == ["grpc-without-http2"]


def test_an_inspected_body_has_a_bound() -> None:
    """Memory is the buffer times the connections (haproxy#2139)."""
    assert errors(fleet_text(listener="inspect:\n  body: 10GiB")) == ["body: 10GiB"]


@pytest.mark.parametrize(
    ("listener", "expected"),
    [
        (PUBLIC, ["open-listener"]),
        (f"{PUBLIC}\nauth: none", ["open-listener"]),
        (f"{PUBLIC}\nauth: none # lbgen: ignore[open-listener]", []),
        ("bind: 127.0.0.1:8080", []),
        ('bind: "[::1]:8080"', []),
        ("bind: [127.0.0.1:8080, 10.0.0.1:8080]", ["open-listener"]),
    ],
)
def test_doors_that_are_open(listener: str, expected: list[str]) -> None:
    text = fleet_text(listener=listener).replace("    bind: 127.0.0.1:8080\n", "", 1)
    assert codes(text) == expected
