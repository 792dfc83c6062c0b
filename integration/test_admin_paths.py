"""Paths by which engines are run rather than used: closed in every spelling that an engine takes for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from integration.edge import Ask

if TYPE_CHECKING:
    from integration.edge import Edge

PORT, KEYED, TRUSTED = 8080, 8081, 8082
SECRETS = {"OPS": "sk-ops", "USER": "sk-user"}
SERVER = {"servers": ["gpu-0:8000"]}

FLEET: dict[str, Any] = {
    "pools": {
        "vllm": {"engine": "vllm", **SERVER},
        "sglang": {"engine": "sglang", **SERVER},
        "ollama": {"engine": "ollama", **SERVER},
        "llamacpp": {"engine": "llamacpp", **SERVER},
        "triton": {"engine": "triton", **SERVER},
        "passing": {"engine": "vllm", "admin": "pass", **SERVER},
        "named": {"engine": "vllm", "admin": {"clients": ["ops", "192.0.2.0/24"]}, **SERVER},
    },
    "clients": {"ops": {"key": "env:OPS"}, "user": {"key": "env:USER"}},
    "listeners": {
        "all": {
            "bind": str(PORT),
            "auth": "none",
            "routes": [
                {"path": "/vllm", "strip_prefix": True, "pool": "vllm"},
                {"path": "/sub/vllm", "strip_prefix": True, "add_prefix": "/v1", "pool": "vllm"},
                {"path": "/sglang", "strip_prefix": True, "pool": "sglang"},
                {"path": "/ollama", "strip_prefix": True, "pool": "ollama"},
                {"path": "/llamacpp", "strip_prefix": True, "pool": "llamacpp"},
                {"path": "/triton", "strip_prefix": True, "pool": "triton"},
                {"path": "/passing", "strip_prefix": True, "pool": "passing"},
                {"pool": "vllm"},
            ],
        },
        "keyed": {"bind": str(KEYED), "auth": {"clients": "all"}, "routes": [{"pool": "named"}]},
        "trusted": {
            "bind": str(TRUSTED),
            "auth": "none",
            "trusted_proxies": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"],
            "routes": [{"pool": "named"}],
        },
    },
}

CLOSED = (
    "/sleep",
    "/sleep/",
    "/sleep?level=1",
    "/sleep/x",
    "//sleep",
    "///sleep//",
    "/%73leep",
    "/%53leep",
    "/SLEEP",
    "/Sleep",
    "/sleep%0A",
    "/sleep%20",
    "/sleep;x=y",
    "/sleep%3Fx",
    "/v1/load_lora_adapter",
    "/v1//load_lora_adapter",
    "//v1/load_lora_adapter",
    "/v1%2Fload_lora_adapter",
    "/v1/%6Coad_lora_adapter?x",
    "/v1/load%5Flora%5Fadapter",
    "/reset_prefix_cache",
    "/update_weights",
    "/collective_rpc",
    "/vllm/sleep",
    "/vllm//sleep",
    "/vllm/v1/unload_lora_adapter",
    "/vllm/%73leep",
    "/sub/vllm/load_lora_adapter",
    "/sub/vllm//load_lora_adapter",
    "/sub/vllm/%6Coad_lora_adapter",
    "/sglang/flush_cache",
    "/sglang/update_weights_from_disk",
    "/ollama/api/pull",
    "/ollama//api/delete",
    "/ollama/api//delete",
    "/ollama/api/blobs/sha256:29fdb92e57cf0827ded04ae6461b5931d01fa595843f55d36f5b275a52087dd2",
    "/llamacpp/slots/0?action=erase",
    "/llamacpp/lora-adapters",
    "/llamacpp/models/load",
    "/triton/v2/repository/models/m/load",
    "/triton/v2/models/m/trace/setting",
)
OPEN = (
    "/v1/chat/completions",
    "/sleepy",
    "/v1/sleep",
    "/v1/models/sleep",
    "/v1/load_lora_adapters",
    "/%2573leep",
    "/x?path=/sleep",
    "/vllm/v1/completions",
    "/sub/vllm/sleep",
    "/ollama/api/chat",
    "/ollama/api/show",
    "/llamacpp/v1/chat/completions",
    "/triton/v2/models/m/infer",
    "/passing/sleep",
)


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize("path", CLOSED)
def test_admin_paths_are_closed_in_every_spelling(edge: Edge, path: str, method: str) -> None:
    got = edge.same(Ask(path, method))
    assert (got.status, got.code, got.server) == (403, "admin_path_refused", "")


@pytest.mark.parametrize("path", ["/sleep/.", "/x/../sleep", "/%2e/sleep", "/sleep%00", "/sleep%zz"])
def test_what_hides_an_admin_path_is_malformed(edge: Edge, path: str) -> None:
    assert edge.same(Ask(path, "POST")).status == 400


@pytest.mark.parametrize("path", OPEN)
def test_all_other_paths_are_open(edge: Edge, path: str) -> None:
    got = edge.same(Ask(path, "POST"))
    assert (got.status, got.server) == (200, "gpu-0")


@pytest.mark.parametrize("path", ["/llamacpp/props", "/llamacpp/models", "/llamacpp/lora-adapters"])
def test_what_only_looks_is_open(edge: Edge, path: str) -> None:
    assert edge.same(Ask(path, "GET")).status == 200
    assert edge.same(Ask(path, "POST")).status == 403
    assert edge.same(Ask(path, "PUT")).status == 403


def test_a_client_that_is_named_may(edge: Edge) -> None:
    def ask(name: str) -> int:
        headers = {"Authorization": f"Bearer {SECRETS[name]}"}
        return edge.same(Ask("/sleep", "POST", headers), KEYED).status

    assert (ask("OPS"), ask("USER")) == (200, 403)
    assert edge.same(Ask("/sleep", "POST"), KEYED).status == 401


@pytest.mark.parametrize(
    ("address", "status"),
    [("192.0.2.7", 200), ("192.0.3.7", 403), ("192.0.2.7, 8.8.8.8", 403), ("192.0.2.7, unknown", 403)],
)
def test_an_address_that_is_named_may(edge: Edge, address: str, status: int) -> None:
    got = edge.same(Ask("/sleep", "POST", {"X-Forwarded-For": address}), TRUSTED)
    assert got.status == status
