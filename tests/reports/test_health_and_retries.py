"""Public reports about checks and retries, as fleet files."""

from __future__ import annotations

import pytest

from tests.reports.reading import chat, codes, errors, fleet_text, problems


@pytest.mark.parametrize(
    ("engine", "path"),
    [("sglang", "/v1/models"), ("vllm", "/v1/models"), ("llamacpp", "/v1/models"), ("ollama", "/api/tags")],
)
def test_a_200_that_does_not_mean_ready(engine: str, path: str) -> None:
    """`/v1/models` is 200 while the weights load (gpustack#6203)."""
    assert codes(fleet_text(f"engine: {engine}\nhealth: {{path: {path}}}")) == ["lying-readiness"]
    assert chat(fleet_text(f"engine: {engine}")).health.path not in (None, path)  # type: ignore[union-attr]


def test_a_health_path_that_does_not_exist() -> None:
    """404 from every server is 503 for everybody; seen on a public Ollama fleet."""
    found = problems(fleet_text("engine: ollama\nhealth: {path: /api/health}"))
    assert [problem.code for problem in found] == ["unknown-health-path"]
    assert "/api/version" in found[0].hint


@pytest.mark.parametrize("key", ["Bearer sk-123456", "env:KEY"])
def test_a_health_check_with_a_key(key: str) -> None:
    """The key is a reference (sglang#901); a header's value in clear is the user's own, a key is not."""
    pool = chat(fleet_text(f"health: {{path: /health, headers: {{X-Key: '{key}'}}}}"))
    assert str(pool.health.headers["X-Key"]) == key  # type: ignore[union-attr]


@pytest.mark.parametrize(("engine", "timeout", "warns"), [("sglang", "1s", True), ("sglang", "2s", False)])
def test_a_check_that_is_slow_itself(engine: str, timeout: str, warns: bool) -> None:
    """SGLang's `/health` takes 1.001 s (llama-swap#276)."""
    found = codes(fleet_text(f"engine: {engine}\nhealth: {{timeout: {timeout}}}"))
    assert found == (["short-health-timeout"] if warns else [])


def test_five_milliseconds_between_checks() -> None:
    """`inter 5` is 5 ms to HAProxy; 5 is 5 s here, and less than 100 ms is refused."""
    assert chat(fleet_text("health: {interval: 5}")).health.interval == 5_000  # type: ignore[union-attr]
    assert errors(fleet_text("health:\n  interval: 5ms")) == ["interval: 5ms"]


def test_checks_switched_off() -> None:
    assert codes(fleet_text("health: false")) == ["health-off"]
    assert codes(fleet_text("health: false", target="nginx: {}")) == []


@pytest.mark.parametrize("reason", ["reset", "timeout", "429", "502", "503", "504"])
def test_one_prompt_two_generations(reason: str) -> None:
    """Only a failed connection is free (wazuh#38156; haproxy: three runs of one POST)."""
    text = "retry: {{on: [connect, {}], within: 30m, replay_posts: {}}}"
    paid = problems(fleet_text(text.format(reason, "true")))
    assert "retry-pays-twice" in [problem.code for problem in paid]
    assert "2 times" in next(one.message for one in paid if one.code == "retry-pays-twice")
    assert "retry-pays-twice" in codes(fleet_text(text.format(reason, "false")))
    assert "retry-pays-twice" not in codes(fleet_text("retry: {on: [connect], attempts: 2}"))


def test_what_haproxy_calls_all_retryable_errors_is_no_word_here() -> None:
    assert errors(fleet_text("retry:\n  on: [all-retryable-errors]")) == ["on: [all-retryable-errors]"]
