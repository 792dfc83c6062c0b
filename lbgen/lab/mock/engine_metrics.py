"""The metrics page of a mock GPU server, with the names that real engines use."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Histogram:
    """Times in seconds, counted in the buckets that vLLM has."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one time."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """Yield the lines of a page; `labels` in front of ``le``, each with its comma."""
        total = 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels}le="{bound}"}} {total}'
        whole = f"{{{labels.rstrip(',')}}}" if labels else ""
        yield f"{name}_sum{whole} {self._sum:.6f}"
        yield f"{name}_count{whole} {total}"


FIRST_TOKEN_BOUNDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
ANSWER_BOUNDS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
)  # fmt: skip


class Figures(NamedTuple):
    """What an engine counts."""

    running: int
    waiting: int
    kv_usage: float
    """0 to 1."""
    prompt_tokens: int
    generated_tokens: int
    finished: int
    looked_up: int
    """Tokens of prompts that were looked up in the prefix cache."""
    found: int
    """Those of them that were there."""
    first_token: Histogram
    answer: Histogram


# Sources: docs.vllm.ai "Production metrics", docs.sglang.ai "Production metrics",
# huggingface.co/docs/text-generation-inference "Metrics", llama.cpp tools/server/README.md.
# vLLM renamed gpu_cache_usage_perc to kv_cache_usage_perc with its V1 engine: both are given.
NAMES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "vllm": (
        ("vllm:num_requests_running", "gauge", "running"),
        ("vllm:num_requests_waiting", "gauge", "waiting"),
        ("vllm:kv_cache_usage_perc", "gauge", "kv_usage"),
        ("vllm:gpu_cache_usage_perc", "gauge", "kv_usage"),
        ("vllm:prompt_tokens_total", "counter", "prompt_tokens"),
        ("vllm:generation_tokens_total", "counter", "generated_tokens"),
        ("vllm:request_success_total", "counter", "finished"),
        ("vllm:prefix_cache_queries_total", "counter", "looked_up"),
        ("vllm:prefix_cache_hits_total", "counter", "found"),
        ("vllm:time_to_first_token_seconds", "histogram", "first_token"),
        ("vllm:e2e_request_latency_seconds", "histogram", "answer"),
    ),
    "sglang": (
        ("sglang:num_running_reqs", "gauge", "running"),
        ("sglang:num_queue_reqs", "gauge", "waiting"),
        ("sglang:token_usage", "gauge", "kv_usage"),
        ("sglang:prompt_tokens_total", "counter", "prompt_tokens"),
        ("sglang:generation_tokens_total", "counter", "generated_tokens"),
        ("sglang:num_requests_total", "counter", "finished"),
        ("sglang:cached_tokens_total", "counter", "found"),
        ("sglang:time_to_first_token_seconds", "histogram", "first_token"),
        ("sglang:e2e_request_latency_seconds", "histogram", "answer"),
    ),
    "tgi": (
        ("tgi_batch_current_size", "gauge", "running"),
        ("tgi_queue_size", "gauge", "waiting"),
        ("tgi_request_success", "counter", "finished"),
        ("tgi_request_duration", "histogram", "answer"),
    ),
    "llamacpp": (
        ("llamacpp:requests_processing", "gauge", "running"),
        ("llamacpp:requests_deferred", "gauge", "waiting"),
        ("llamacpp:kv_cache_usage_ratio", "gauge", "kv_usage"),
        ("llamacpp:prompt_tokens_total", "counter", "prompt_tokens"),
        ("llamacpp:tokens_predicted_total", "counter", "generated_tokens"),
    ),
}
"""For each engine: metric, its type, and the figure it shows."""


def text(engine: str, model: str, figures: Figures) -> str:
    """Return the page in Prometheus' text format; raises `KeyError` for an unknown engine."""
    label = f'model_name="{model}",' if engine in {"vllm", "sglang"} else ""
    labels = f"{{{label.rstrip(',')}}}" if label else ""
    lines = []
    for name, kind, figure in NAMES[engine]:
        lines += [f"# HELP {name} {figure}", f"# TYPE {name} {kind}"]
        value = getattr(figures, figure)
        lines += value.lines(name, label) if kind == "histogram" else [f"{name}{labels} {value}"]
    return "\n".join(lines) + "\n"
