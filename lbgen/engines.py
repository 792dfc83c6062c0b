"""What lbgen knows of each inference engine: data, with where each fact is from.

A fleet that names its engine gets the readiness path that does not lie, an idle time
of kept-alive connections below the engine's own, and the names of the engine's metrics.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Metrics(NamedTuple):
    """Where an engine tells how busy it is, in Prometheus text. Names to try in order; empty: not told."""

    path: str
    running: tuple[str, ...] = ()
    """Requests that are being computed."""
    waiting: tuple[str, ...] = ()
    """Requests that the engine has accepted and not begun."""
    kv_usage: tuple[str, ...] = ()
    """Share of the KV cache in use, from 0 to 1, without what is only kept for the next prompt like it."""
    generated: tuple[str, ...] = ()
    """Output tokens since the start, a counter: at each step (vLLM), or when an answer ends (the others)."""
    finished: tuple[str, ...] = ()
    """Requests that were answered, a counter."""
    first_token: tuple[str, ...] = ()
    """Seconds from a request's arrival to its first token: a histogram, without ``_bucket``."""
    answer: tuple[str, ...] = ()
    """Seconds from a request's arrival to its last token, likewise."""
    looked_up: tuple[str, ...] = ()
    """Tokens of prompts that were looked up in the prefix cache, a counter."""
    found: tuple[str, ...] = ()
    """Those of them that were there."""
    missed: tuple[str, ...] = ()
    """Those that were not, where an engine counts these in place of all that were looked up."""
    port: int | None = None
    """None: the port of the API."""
    needs: str = ""
    """What has to be switched on for it."""


class AdminPaths(NamedTuple):
    """Paths by which an engine is run rather than used, each with all below it; ``*`` is one segment."""

    all: tuple[str, ...] = ()
    """Whatever the method."""
    changing: tuple[str, ...] = ()
    """But for GET, HEAD and OPTIONS, which only look."""

    def __bool__(self) -> bool:
        return bool(self.all or self.changing)


class Engine(NamedTuple):
    """One inference engine, as it behaves by default."""

    name: str
    title: str
    port: int
    """The port that it serves on unless told otherwise."""
    health_path: str | None
    """Answers 200 only when the engine can serve; None: no path is known, only TCP can be checked."""
    health_paths: tuple[str, ...]
    """Every path known to answer about health, `health_path` first."""
    keep_alive: int | None
    """Milliseconds after which it closes an idle connection; None: never, as far as known."""
    parallelism: int | None
    """Requests that one server computes at once; None: it depends on the model and the hardware."""
    parallelism_setting: str = ""
    """What the engine calls that number."""
    metrics: Metrics | None = None
    llm: bool = True
    """Generates text: answers may take minutes and are streamed."""
    admin: AdminPaths = AdminPaths()
    sources: tuple[str, ...] = ()
    tried: str = ""
    """The version that ran behind rendered files, and the day (docs/engines-tried.md); empty: none has."""

    @property
    def idle_timeout(self) -> int:
        """Milliseconds that a balancer may keep an idle connection: a second less than the engine does."""
        return UNKNOWN_IDLE if self.keep_alive is None else self.keep_alive - 1_000


UNKNOWN_IDLE = 60_000
"""For engines that do not close idle connections: NGINX's own default of a minute."""

_UVICORN = 5_000
"""uvicorn's ``timeout_keep_alive``, 5 s, which most Python servers leave as it is."""

_UVICORN_SOURCE = "uvicorn settings: timeout_keep_alive defaults to 5 seconds"

_ENGINES = (
    Engine(
        name="vllm",
        title="vLLM",
        port=8000,
        health_path="/health",
        health_paths=("/health", "/ping"),
        keep_alive=_UVICORN,
        parallelism=256,
        parallelism_setting="--max-num-seqs (1024 on GPUs of 70 GiB and more, A100 excepted)",
        metrics=Metrics(
            path="/metrics",
            running=("vllm:num_requests_running",),
            # Newer versions tell apart what waits for a place and what waits for something else (an adapter,
            # a transfer of its cache): 'deferred' is no sign of a full engine.
            waiting=('vllm:num_requests_waiting_by_reason{reason="capacity"}', "vllm:num_requests_waiting"),
            # The older name was deprecated in 0.10 in favour of the newer one.
            kv_usage=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
            generated=("vllm:generation_tokens_total",),
            finished=("vllm:request_success_total",),
            first_token=("vllm:time_to_first_token_seconds",),
            answer=("vllm:e2e_request_latency_seconds",),
            # The older names went with gpu_cache_usage_perc.
            looked_up=("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
            found=("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
        ),
        admin=AdminPaths(
            (
                "/v1/load_lora_adapter",
                "/v1/unload_lora_adapter",
                "/sleep",
                "/wake_up",
                "/is_sleeping",
                "/pause",
                "/resume",
                "/is_paused",
                "/abort_requests",
                "/reset_prefix_cache",
                "/reset_mm_cache",
                "/reset_encoder_cache",
                "/init_weight_transfer_engine",
                "/start_weight_update",
                "/start_draft_weight_update",
                "/update_weights",
                "/finish_weight_update",
                "/update_weight_version",
                "/weight_checker",
                "/collective_rpc",
                "/scale_elastic_ep",
                "/is_scaling_elastic_ep",
                "/start_profile",
                "/stop_profile",
                "/server_info",
            )
        ),
        sources=(
            "vLLM docs, security: operational, development and profiler endpoints; dynamic LoRA loading",
            "vllm/entrypoints/serve/dev/rlhf/api_router.py: weights, pause and resume",
            "vllm/envs.py: VLLM_HTTP_TIMEOUT_KEEP_ALIVE, default 5",
            "vllm/engine/arg_utils.py: max_num_seqs by usage context",
            "vllm/v1/metrics/loggers.py: names of gauges, counters and histograms",
        ),
        tried="0.32.0+cpu on 2026-11-30",
    ),
    Engine(
        name="sglang",
        title="SGLang",
        port=30000,
        # /v1/models is static and answers while the model loads; /health is 503 until it is warm, and takes
        # about a second because it may run a token (gpustack#6203, llama-swap#276): give it 5 s.
        health_path="/health",
        health_paths=("/health", "/health_generate"),
        keep_alive=_UVICORN,
        parallelism=None,
        parallelism_setting="--max-running-requests (by default from the memory that is left)",
        metrics=Metrics(
            path="/metrics",
            running=("sglang:num_running_reqs",),
            waiting=("sglang:num_queue_reqs",),
            kv_usage=("sglang:token_usage",),
            generated=("sglang:generation_tokens_total",),
            finished=("sglang:num_requests_total",),
            first_token=("sglang:time_to_first_token_seconds",),
            answer=("sglang:e2e_request_latency_seconds",),
            looked_up=("sglang:prompt_tokens_total",),
            found=("sglang:cached_tokens_total",),
            needs="--enable-metrics",
        ),
        admin=AdminPaths(
            (
                "/flush_cache",
                "/clear_hicache_storage_backend",
                "/load_lora_adapter",
                "/unload_lora_adapter",
                "/update_weights",
                "/update_weights_from_disk",
                "/update_weights_from_tensor",
                "/update_weights_from_distributed",
                "/update_weights_from_ipc",
                "/update_weight_version",
                "/init_weights_update_group",
                "/destroy_weights_update_group",
                "/init_weights_send_group_for_remote_instance",
                "/send_weights_to_remote_instance",
                "/get_weights_by_name",
                "/release_memory_occupation",
                "/resume_memory_occupation",
                "/pause_generation",
                "/continue_generation",
                "/abort_request",
                "/slow_down",
                "/freeze_gc",
                "/set_internal_state",
                "/configure_logging",
                "/start_profile",
                "/stop_profile",
                "/start_expert_distribution_record",
                "/stop_expert_distribution_record",
                "/dump_expert_distribution_record",
                "/get_server_info",
                "/server_info",
            )
        ),
        sources=(
            "sglang/srt/entrypoints/http_server.py: timeout_keep_alive=5, and its routes (0.5.5)",
            "SGLang docs, native APIs: flush_cache, update_weights, server_info",
            "sglang docs, production metrics: names of gauges, counters and histograms",
        ),
    ),
    Engine(
        name="tgi",
        title="Text Generation Inference",
        port=3000,
        health_path="/health",
        health_paths=("/health",),
        keep_alive=None,
        parallelism=128,
        parallelism_setting="--max-concurrent-requests",
        metrics=Metrics(
            path="/metrics",
            running=("tgi_batch_current_size",),
            waiting=("tgi_queue_size",),
            generated=("tgi_request_generated_tokens_sum",),
            finished=("tgi_request_success",),
            answer=("tgi_request_duration",),
        ),
        sources=(
            "TGI launcher arguments: max_concurrent_requests 128, port 3000",
            "TGI docs, metrics: tgi_queue_size, tgi_batch_current_size, tgi_request_duration",
            "TGI router: tgi_request_generated_tokens",
        ),
    ),
    Engine(
        name="llamacpp",
        title="llama.cpp server",
        port=8080,
        # 503 while the model loads, where older builds answer 200 on /v1/models (dkg PR#2447).
        health_path="/health",
        health_paths=("/health", "/v1/health"),
        # cpp-httplib closes after 5 s and drops what arrives in that instant.
        keep_alive=5_000,
        parallelism=4,
        parallelism_setting="--parallel (1 before the end of 2025)",
        metrics=Metrics(
            path="/metrics",
            running=("llamacpp:requests_processing",),
            waiting=("llamacpp:requests_deferred",),
            # Removed in 2025; older builds have it.
            kv_usage=("llamacpp:kv_cache_usage_ratio",),
            generated=("llamacpp:tokens_predicted_total",),
            # Counted since 2026; before that, the second meant all tokens that were computed as well.
            found=("llamacpp:prompt_tokens_cached_total",),
            missed=("llamacpp:prompt_tokens_total",),
            needs="--metrics",
        ),
        admin=AdminPaths(
            # /slots shows what others ask, and saves, loads and erases it.
            ("/slots", "/cors-proxy", "/tools"),
            ("/props", "/lora-adapters", "/models"),
        ),
        sources=(
            "llama.cpp tools/server/server.cpp: routes; models are loaded and unloaded in router mode",
            "cpp-httplib: CPPHTTPLIB_KEEPALIVE_TIMEOUT_SECOND 5",
            "llama.cpp tools/server/README: --parallel, --metrics, its gauges and counters",
        ),
        tried="0.7.0, build 11669 on 2026-11-30",
    ),
    Engine(
        name="ollama",
        title="Ollama",
        port=11434,
        # Answers "Ollama is running"; /api/tags and /v1/models list files on disk, and /api/health is 404.
        health_path="/",
        health_paths=("/", "/api/version"),
        keep_alive=None,
        parallelism=1,
        parallelism_setting="OLLAMA_NUM_PARALLEL",
        admin=AdminPaths(
            (
                "/api/pull",
                "/api/push",
                "/api/create",
                "/api/copy",
                "/api/delete",
                "/api/blobs",
                "/api/signout",
                "/api/user",
                # Go's profiler, since Ollama serves the default mux.
                "/debug/pprof",
            )
        ),
        sources=(
            "Ollama envconfig: OLLAMA_NUM_PARALLEL; server/routes.go: GET and HEAD /",
            "Ollama server/routes.go: GenerateRoutes, and the comment on pprof in Serve",
        ),
    ),
    Engine(
        name="triton",
        title="Triton Inference Server",
        port=8000,
        health_path="/v2/health/ready",
        health_paths=("/v2/health/ready", "/v2/health/live"),
        keep_alive=None,
        parallelism=None,
        parallelism_setting="max_batch_size of the model",
        metrics=Metrics(
            path="/metrics",
            # Among other labels: model="tensorrt_llm",request_type="scheduled",version="1".
            running=('nv_trt_llm_request_metrics{request_type="scheduled"}',),
            waiting=(
                'nv_trt_llm_request_metrics{request_type="waiting"}',
                "nv_inference_pending_request_count",
            ),
            kv_usage=('nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"}',),
            # nv_inference_first_response_histogram_ms times the first piece, and is off by default.
            finished=("nv_inference_request_success",),
            port=8002,
        ),
        admin=AdminPaths(
            (
                "/v2/repository",
                "/v2/systemsharedmemory",
                "/v2/cudasharedmemory",
                "/v2/logging",
                "/v2/trace",
                "/v2/models/*/trace",
                "/inference.GRPCInferenceService/RepositoryIndex",
                "/inference.GRPCInferenceService/RepositoryModelLoad",
                "/inference.GRPCInferenceService/RepositoryModelUnload",
                "/inference.GRPCInferenceService/SystemSharedMemoryRegister",
                "/inference.GRPCInferenceService/SystemSharedMemoryUnregister",
                "/inference.GRPCInferenceService/CudaSharedMemoryRegister",
                "/inference.GRPCInferenceService/CudaSharedMemoryUnregister",
                "/inference.GRPCInferenceService/TraceSetting",
                "/inference.GRPCInferenceService/LogSettings",
            )
        ),
        sources=(
            "Triton docs: secure deployment; extensions for repository, shared memory, logging and trace",
            "Triton docs, protocol: v2/health/ready; metrics on port 8002",
            "tensorrtllm_backend README: nv_trt_llm_* gauges; Triton docs, metrics: nv_inference_*",
        ),
    ),
    Engine(
        name="trtllm",
        title="TensorRT-LLM (trtllm-serve)",
        port=8000,
        health_path="/health",
        health_paths=("/health", "/health_generate"),
        keep_alive=_UVICORN,
        parallelism=2048,
        parallelism_setting="--max_batch_size",
        metrics=Metrics(
            # /metrics is JSON there.
            path="/prometheus/metrics",
            running=("trtllm_num_requests_running",),
            waiting=("trtllm_num_requests_waiting",),
            kv_usage=("trtllm_kv_cache_utilization",),
            generated=("trtllm_generation_tokens_total",),
            finished=("trtllm_request_success_total",),
            first_token=("trtllm_time_to_first_token_seconds",),
            answer=("trtllm_e2e_request_latency_seconds",),
            needs="return_perf_metrics",
        ),
        admin=AdminPaths(("/release_memory", "/resume_memory", "/update_weights", "/server_info")),
        sources=(
            "tensorrt_llm/serve/openai_server.py: its routes for reinforcement learning",
            "tensorrt_llm/serve/openai_server.py: TIMEOUT_KEEP_ALIVE = 5; /health; /prometheus/metrics",
            "Gateway API inference extension, model server protocol: trtllm_* gauges; aiperf: its counters",
            "Dynamo docs, TensorRT-LLM Prometheus metrics: its histograms",
        ),
    ),
    Engine(
        name="litellm",
        title="LiteLLM proxy",
        port=4000,
        # /health calls every model behind it, which costs money; readiness asks only the proxy itself.
        health_path="/health/readiness",
        health_paths=("/health/readiness", "/health/liveliness", "/health/liveness"),
        keep_alive=_UVICORN,
        parallelism=None,
        sources=("LiteLLM docs, health checks", _UVICORN_SOURCE),
    ),
    Engine(
        name="tei",
        title="Text Embeddings Inference",
        port=3000,
        health_path="/health",
        health_paths=("/health",),
        keep_alive=None,
        parallelism=512,
        parallelism_setting="--max-concurrent-requests",
        metrics=Metrics(
            path="/metrics",
            waiting=("te_queue_size",),
            finished=("te_request_success",),
            answer=("te_request_duration",),
        ),
        llm=False,
        sources=("TEI README: --max-concurrent-requests 512, port 3000, te_queue_size, te_request_duration",),
    ),
    Engine(
        name="openai",
        title="a server with OpenAI's API",
        port=8000,
        health_path=None,
        health_paths=(),
        # Unknown, so as short as the shortest that is common.
        keep_alive=_UVICORN,
        parallelism=None,
        sources=(_UVICORN_SOURCE,),
    ),
    Engine(
        name="http",
        title="a web server that is no LLM",
        port=8080,
        health_path=None,
        health_paths=(),
        # Node.js keeps idle connections for 5 s, as uvicorn does: as short as the shortest that is common.
        keep_alive=_UVICORN,
        parallelism=None,
        llm=False,
        sources=(_UVICORN_SOURCE, "Node.js http: server.keepAliveTimeout defaults to 5000 ms"),
    ),
)

ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in _ENGINES}
"""Every engine that a pool may name."""

ENGINE_ALIASES: Mapping[str, str] = {
    "llama.cpp": "llamacpp",
    "llama_cpp": "llamacpp",
    "llama-server": "llamacpp",
    "tensorrt-llm": "trtllm",
    "trtllm-serve": "trtllm",
    "text-generation-inference": "tgi",
    "text-embeddings-inference": "tei",
}
"""Other names that are accepted."""
