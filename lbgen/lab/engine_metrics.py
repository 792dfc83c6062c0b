"""The metrics page of a mock GPU server, with the names that real engines use."""

from __future__ import annotations

from typing import NamedTuple


class Figures(NamedTuple):
    """What an engine counts."""

    running: int
    waiting: int
    kv_usage: float
    """0 to 1."""
    prompt_tokens: int
    generated_tokens: int
    finished: int


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
    ),
    "sglang": (
        ("sglang:num_running_reqs", "gauge", "running"),
        ("sglang:num_queue_reqs", "gauge", "waiting"),
        ("sglang:token_usage", "gauge", "kv_usage"),
        ("sglang:prompt_tokens_total", "counter", "prompt_tokens"),
        ("sglang:generation_tokens_total", "counter", "generated_tokens"),
        ("sglang:num_requests_total", "counter", "finished"),
    ),
    "tgi": (
        ("tgi_batch_current_size", "gauge", "running"),
        ("tgi_queue_size", "gauge", "waiting"),
        ("tgi_request_success", "counter", "finished"),
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
    labels = f'{{model_name="{model}"}}' if engine in {"vllm", "sglang"} else ""
    lines = []
    for name, kind, figure in NAMES[engine]:
        lines += [f"# HELP {name} {figure}", f"# TYPE {name} {kind}"]
        lines.append(f"{name}{labels} {getattr(figures, figure)}")
    return "\n".join(lines) + "\n"
