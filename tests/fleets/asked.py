"""What is asked of the public fleets, and who has to answer."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from typing import TYPE_CHECKING, NamedTuple

import grpc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.model import Fleet
    from lbgen.units import Address

GRPC = "/v1.Speech/Whoami"
NOBODY = ""
"""The balancer itself answers."""
PATIENCE_S = 30


class Ask(NamedTuple):
    """A request, and who answers: a pool by name, or the balancer itself with a status."""

    door: str
    """A listener's name, that with ``redirect:`` before it, ``metrics``, or ``grpc:`` and a listener."""
    path: str
    answer: str | int
    method: str = "GET"
    model: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    host: str = "site.example"
    times: int = 1
    never: tuple[str, ...] = ()
    """Servers of the pool that do not answer."""
    seen: str = ""
    """The path as the server sees it, where it is another one."""


class Way(NamedTuple):
    """How to get to a listener."""

    address: Address
    tls: bool

    @classmethod
    def to(cls, fleet: Fleet, binds: Mapping[Address, Address], door: str) -> Way:
        """Return the way to a door of a fleet."""
        if door == "metrics":
            assert fleet.metrics is not None
            return cls(binds[fleet.metrics.binds[0]], tls=False)
        listener = next(one for one in fleet.listeners if one.name == door.rpartition(":")[2])
        if door.startswith("redirect:"):
            return cls(binds[listener.redirect_from[0]], tls=False)
        return cls(binds[listener.binds[0]], tls=listener.tls is not None)

    def ask(self, asked: Ask) -> tuple[int, str]:
        """Return the status and who answered; wait for servers that are still to be checked."""
        end = time.monotonic() + PATIENCE_S
        ask = self._grpc if asked.door.startswith("grpc:") else self._http
        while (got := ask(asked))[0] == 503 != asked.answer and time.monotonic() < end:
            time.sleep(0.5)  # a fleet's limits count these
        return got

    def _grpc(self, asked: Ask) -> tuple[int, str]:
        with grpc.insecure_channel(f"{self.address.host}:{self.address.port}") as channel:
            try:
                return 200, channel.unary_unary(asked.path)(b"", timeout=10).decode()
            except grpc.RpcError as error:
                return (503 if error.code() is grpc.StatusCode.UNAVAILABLE else 500), NOBODY

    def _http(self, asked: Ask) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.address.host, self.address.port, timeout=30)
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            plain = socket.create_connection((self.address.host, self.address.port), timeout=30)
            connection.sock = context.wrap_socket(plain, server_hostname=asked.host)
        body = json.dumps({"model": asked.model}) if asked.model else None
        kind = {"Content-Type": "application/json"} if body else {}
        try:
            headers = {"Host": asked.host, **kind, **dict(asked.headers)}
            connection.request(asked.method, asked.path, body, headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status, answer.getheader("x-mock", NOBODY)
        finally:
            connection.close()


REFUSED = {
    ("f08", "nginx"): ["protocol"],
    ("f14", "nginx"): ["tls.directory"],
    ("f14", "envoy"): ["tls.directory"],
}
"""What a program of this machine cannot do for a fleet that was made for another one."""

CHAT = "/v1/chat/completions"
KEY = (("Authorization", "Bearer sk-a"),)
WEB = "chat.example.org"
ASKED: dict[str, tuple[Ask, ...]] = {
    "f01": (Ask("default", "/v1/models", "vllm"), Ask("default", CHAT, "vllm", "POST", "m", times=4)),
    "f02": (Ask("default", "/v1/models", "vllm"), Ask("default", CHAT, "vllm", "POST", "m", times=4)),
    "f03": (
        Ask("public", "/v1/models", "vllm"), Ask("public", CHAT, "vllm", "POST", "m"),
        Ask("public", "/metrics", 404), Ask("public", "/v11", 404),
    ),
    "f04": (
        Ask("plain", "/gpt-oss-20b/v1/models", "gpt-oss-20b", seen="/v1/models"),
        Ask("plain", f"/gpt-oss-120b{CHAT}", "gpt-oss-120b", "POST", "m", seen=CHAT),
        Ask("plain", "/qwen-30b", "qwen-30b", seen="/"),
        Ask("plain", "/qwen-30bb/v1/models", "gateway"), Ask("plain", "/", "gateway"),
        Ask("secure", "/qwen-30b/v1/models", "qwen-30b", seen="/v1/models"),
        Ask("secure", "/ui", "gateway"),
    ),
    "f05": (Ask("public", CHAT, "vllm", "POST", "m", times=10), Ask("metrics", "/live", 200)),
    "f06": (Ask("public", CHAT, "inference", "POST", "m", times=4),),
    "f08": (
        Ask("http", "/apps/chat", "chat", times=6, never=("fallback",)),
        Ask("http", "/apps/embed/v1", "embed"), Ask("http", "/apps/embedded", "chat"),
        Ask("http", "/other", 404), Ask("http", "/-/live", 200), Ask("http", "/-/ready", 200),
        Ask("grpc:grpc", GRPC, "grpc", times=2), Ask("metrics", "/ready", 200),
    ),
    "f09": (
        Ask("ollama", "/v1/models", "runner", seen="/engines/v1/models"),
        Ask("ollama", "/api/tags", 200), Ask("ollama", "/api/show", 200, "POST", "ai/llama3.2"),
        Ask("ollama", "/api/chat", 503, "POST", "m"), Ask("ollama", "/", 503),
    ),
    "f10": (
        Ask("public", "/api/embeddings", "ollama", "POST", "m", (("apikey", "sk-a"),)),
        Ask("public", "/api/embeddings", "ollama", "POST", "m", (("apikey", "sk-c"),)),
        Ask("public", "/api/embeddings", 401, "POST", "m", (("apikey", "sk-d"),)),
        Ask("public", "/api/embeddings", 401, "POST", "m", KEY),
        Ask("public", "/api/chat", 404, "POST", "m", (("apikey", "sk-b"),)),
    ),
    "f11": (Ask("public", CHAT, "gateway", "POST", "m"), Ask("public", "/", "gateway")),
    "f12": (
        Ask("public", CHAT, "llama", "POST", "llama-3.1-8b", KEY, times=2),
        Ask("public", "/v1/completions", "llama", "POST", "llama-3.1-8b-q4", KEY),
        Ask("public", CHAT, "qwen", "POST", "qwen2.5-coder", KEY),
        Ask("public", CHAT, 404, "POST", "qwen2.5-coder-7b", KEY),
        Ask("public", "/v1/embeddings", 404, "POST", "qwen2.5-coder", KEY),
        Ask("public", CHAT, 401, "POST", "qwen2.5-coder"), Ask("public", "/health", 200, headers=KEY),
    ),
    "f14": (
        Ask("public", "/", "webui", host=WEB), Ask("public", "/", 404),
        Ask("redirect:public", "/chat", 308, host=WEB),
        Ask("redirect:public", "/.well-known/acme-challenge/x", "acme", host=WEB),
    ),
    "f15": (Ask("public", "/", "api"), Ask("redirect:public", "/", 308)),
    "f17": (
        Ask("edge", "/v1/models", "chat"), Ask("edge", "/v1/models", "chat", "POST", "m"),
        Ask("edge", CHAT, "chat", "POST", "m"), Ask("edge", "/v1x", "site"), Ask("edge", "/", "site"),
    ),
    "f19": (Ask("lan", "/api/tags", "ollama", times=8, never=("192.168.0.141",)),),
    "f21": (
        Ask("public", "/api/chat", "ollama", "POST", "m"),
        Ask("public", "/api/generate", "ollama", "POST", "m"),
        Ask("public", "/api/tags", "ollama"), Ask("public", "/api/delete", 403, "DELETE", "m"),
        Ask("public", "//api//delete", 403, "DELETE", "m"), Ask("metrics", "/metrics", 401),
    ),
    "f23": (Ask("public", CHAT, "vllm", "POST", "m", times=8, never=("127.0.0.1-8002",)),),
    "f25": (Ask("public", CHAT, "vllm", "POST", "m", times=8),),
    "f26": (
        Ask("public", "/metrics", 200), Ask("public", "/metrics/x", "middleware"),
        Ask("public", CHAT, "middleware", "POST", "m"), Ask("public", "/livez", 200),
        Ask("public", "/readyz", 200),
    ),
    "f27": (
        Ask("public", "/live", 200), Ask("public", "/ready", 200),
        Ask("public", CHAT, "replicas", "POST", "m", times=4),
    ),
}  # fmt: skip
"""By the fleet's number."""
