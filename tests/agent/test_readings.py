from __future__ import annotations

import pytest

from lbgen.agent.readings import Reading, read_page
from lbgen.engines import ENGINES, Metrics

assert ENGINES["vllm"].metrics is not None
VLLM: Metrics = ENGINES["vllm"].metrics

PAGE = b"""# HELP vllm:num_requests_running Number of requests
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m}odel"} 12.0
vllm:num_requests_running{engine="1",model_name="model"} 3.0 1700000000
vllm:num_requests_running_total{engine="0"} 999
vllm:num_requests_waiting{engine="0"} 2.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.5
vllm:generation_tokens_total{engine="0"} 100
vllm:generation_tokens_total{engine="1"} 20
vllm:generation_tokens_created{engine="0"} 1700000000
"""

TRITON = b"""# HELP nv_trt_llm_request_metrics TRT LLM request metrics
# TYPE nv_trt_llm_request_metrics gauge
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 3
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 7
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.25
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 1
"""


def test_reads_the_named_figures_and_no_longer_names() -> None:
    assert read_page(PAGE, VLLM) == Reading(15, 2, 0.375, 120)


def test_finds_one_label_among_others() -> None:
    metrics = ENGINES["triton"].metrics
    assert metrics is not None
    assert read_page(TRITON, metrics) == Reading(7, 3, 0.25, None)


def test_what_waits_for_something_else_than_a_place_is_left_out() -> None:
    page = b"""vllm:num_requests_waiting{engine="0"} 5
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 1
vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 4
"""
    assert read_page(page, VLLM).waiting == 1


def test_takes_the_older_name_where_the_newer_is_missing() -> None:
    assert read_page(b"vllm:gpu_cache_usage_perc 0.75", VLLM).kv_usage == 0.75


@pytest.mark.parametrize(
    "page", [b"", b"\x00\xff", b"vllm:num_requests_running", b"vllm:num_requests_running NaN",
             b"vllm:num_requests_running -3", b"vllm:num_requests_running{ 5",
             b"vllm:num_requests_running +Inf", b"vllm:num_requests_running 1e300",
             b"vllm:num_requests_running " + b"9" * 85, b"vllm:num_requests_running " + b"9" * 400,
             b"vllm:kv_cache_usage_perc 97", b"vllm:generation_tokens_total 1e300",
             b"<html>not found</html>"],
)  # fmt: skip
def test_garbage_is_no_reading(page: bytes) -> None:
    assert read_page(page, VLLM) == Reading(None, None, None)


@pytest.mark.parametrize(
    "engine", [engine for engine in ENGINES.values() if engine.metrics], ids=lambda e: e.name
)
def test_every_engine_that_tells_is_read(engine: object) -> None:
    metrics: Metrics = engine.metrics  # type: ignore[attr-defined]
    for names, figure in (
        (metrics.running, "running"),
        (metrics.waiting, "waiting"),
        (metrics.kv_usage, "kv_usage"),
        (metrics.generated, "generated"),
    ):
        for name in names:
            assert getattr(read_page(f"{name} 0.5\n".encode(), metrics), figure) == 0.5
