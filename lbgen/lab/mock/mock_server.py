"""The mock GPU server's endpoints: the OpenAI API, health, metrics, and the control API under ``/mock``."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lbgen.engines import ENGINES
from lbgen.lab.mock import echo, engine_metrics, openai_api
from lbgen.lab.mock.faults import Fault, Faults, strike
from lbgen.lab.mock.gpu import Gpu
from lbgen.lab.mock.http_server import KEEP_ALIVE_S, Exchange, Request, Server
from lbgen.lab.mock.pace import Pace
from lbgen.lab.mock.record import Record, Seen
from lbgen.lab.mock.streaming import Job, stream
from lbgen.problems import LbgenError
from lbgen.simulate.servers.keyed import KeyedEngine
from lbgen.simulate.servers.step_times.profile_file import profile_named
from lbgen.simulate.servers.step_times.profiles import DEFAULT_PROFILE

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from lbgen.lab.mock.http_server import Header

GENERATIONS = ("/v1/completions", "/v1/chat/completions")
HEALTH_PATHS = {"/healthz", "/v1/health/ready"}.union(*(engine.health_paths for engine in ENGINES.values()))
"""Those of all engines, since a trial's servers stand in for any of them."""


@dataclass(slots=True)
class Settings:
    """How a mock GPU server behaves."""

    name: str = "mock"
    """Stands in the header ``x-mock-server`` of every answer."""
    profile: str = DEFAULT_PROFILE
    slots: int | None = None
    """Requests in the batch at most; None: the profile's."""
    speed: float = 1.0
    """Virtual seconds in a second."""
    models: tuple[str, ...] = ("mock",)
    engine: str = "vllm"
    """Whose metric names are shown."""
    load_s: float = 0.0
    """How long ``/health`` answers 503 after the start."""
    chunk_s: float = 0.01
    """Shortest time between two pieces of a stream: faster tokens travel together."""
    kv_tokens: int | None = None
    """What the KV cache holds; None: the profile's."""
    changes: Mapping[str, float] = field(default_factory=dict)
    """Figures of the profile (`lbgen.simulate.servers.step_times.profiles.Profile`) to replace its own."""
    names_sessions: str | None = None
    """The header in which an answer names the session of a request that names none."""


class MockGpu:
    """One mock GPU server."""

    def __init__(self, settings: Settings, keep_alive_s: float = KEEP_ALIVE_S) -> None:
        self._loop = asyncio.get_running_loop()
        self.record = Record()
        self.faults = Faults()
        self._number = 0
        self._configure(settings)
        self._server = Server(self.handle, keep_alive_s)

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Begin to serve, there too; return the port. Raises `OSError`."""
        return await self._server.listen(host, port, tls)

    async def close(self) -> None:
        """Stop."""
        await self._server.close()

    async def handle(self, exchange: Exchange) -> None:
        """Answer one request."""
        path = exchange.request.path
        if path.startswith("/mock/"):
            await self._control(exchange)
            return
        self.record.paths[path] += 1
        if exchange.request.header(echo.HEADER) is not None:
            await echo.echo(exchange, self._headers)
            return
        if path.endswith(GENERATIONS) and exchange.request.method == "POST":
            await self._recorded(exchange)
            return
        fault = self.faults.pick(exchange.request)
        if fault is None or not await strike(fault, exchange):
            await self._page(exchange, path)

    # generations

    async def _recorded(self, exchange: Exchange) -> None:
        seen = self.record.begin(exchange.request)
        outcome = "aborted"
        try:
            outcome = await self._generate(exchange, seen)
        except (openai_api.BadRequestError, ValueError) as error:
            outcome = "refused"
            await self._respond(exchange, 400, openai_api.error(400, str(error)))
        finally:
            self.record.end(seen, outcome)

    async def _generate(self, exchange: Exchange, seen: Seen) -> str:
        """Answer a generation; return its outcome. Raises `ClientGone`, `ValueError`, `BadRequestError`."""
        fault = self.faults.pick(exchange.request)
        if fault is not None and await strike(fault, exchange):
            return f"fault:{fault.kind}"
        ask = openai_api.read(exchange.request.path, exchange.request.body, self.settings.models[0])
        self.record.prompt_tokens += ask.prompt_tokens
        self._number += 1
        headers = (*self._headers, *self._session_of(exchange.request))
        source = Pace.of(exchange.request) or self.gpu
        kept = ask.continued if self._caches else b""
        generation = source.submit(ask.prompt_tokens, ask.output_tokens, kept)
        generation.first.add_done_callback(lambda _: self.record.first(seen))
        job = Job(exchange, seen, ask, openai_api.Answer(ask, self._number), generation, fault)
        try:
            if ask.stream:
                return await stream(job, source, headers, self.settings.chunk_s)
            await generation.ended
            seen.tokens = ask.output_tokens
            await exchange.respond(200, job.answer.whole(), (*headers, *openai_api.JSON))
        finally:
            source.cancel(generation)
        return "ok"

    def _session_of(self, request: Request) -> tuple[Header, ...]:
        """Return the header that names a session which begins."""
        name = self.settings.names_sessions
        if name is None or request.header(name.lower()):
            return ()
        return ((name, f"{self.settings.name}-{self._number}"),)

    # everything else

    async def _page(self, exchange: Exchange, path: str) -> None:
        if path in HEALTH_PATHS:
            ready = self._loop.time() >= self._ready_at
            body = b"" if ready else openai_api.error(503, "the model is loading")
            await self._respond(exchange, 200 if ready else 503, body)
        elif path == "/v1/models":
            await self._respond(exchange, 200, openai_api.models(self.settings.models))
        elif path.startswith("/v1/models/"):
            await self._model(exchange, unquote(path.removeprefix("/v1/models/")))
        elif path == "/metrics":
            await exchange.respond(
                200, self._metrics().encode(), (*self._headers, ("content-type", "text/plain; version=0.0.4"))
            )
        else:
            await self._respond(exchange, 404, openai_api.error(404, f"no such page: {path}"))

    async def _model(self, exchange: Exchange, name: str) -> None:
        if name in self.settings.models:
            await self._respond(exchange, 200, openai_api.model(name))
        else:
            await self._respond(exchange, 404, openai_api.error(404, f"the model '{name}' does not exist"))

    def _metrics(self) -> str:
        record = self.record
        figures = engine_metrics.Figures(
            self.gpu.running, self.gpu.waiting, self.gpu.kv_usage, record.prompt_tokens,
            record.generated, record.outcomes["ok"], self.gpu.prompt_tokens, self.gpu.hit_tokens,
            record.first_token, record.answer,
        )  # fmt: skip
        return engine_metrics.text(self.settings.engine, self.settings.models[0], figures)

    async def _respond(self, exchange: Exchange, status: int, body: bytes) -> None:
        await exchange.respond(status, body, (*self._headers, *openai_api.JSON))

    # control

    async def _control(self, exchange: Exchange) -> None:
        request = exchange.request
        try:
            result = self._command(request)
        except (ValueError, TypeError, KeyError) as error:
            await self._respond(exchange, 400, openai_api.error(400, str(error)))
            return
        await self._respond(exchange, 200, json.dumps(result).encode())

    def _command(self, request: Request) -> Any:  # noqa: ANN401 - JSON
        fields = json.loads(request.body) if request.body else {}
        match request.method, request.path:
            case "GET", "/mock/state":
                return self._state()
            case "GET", "/mock/requests":
                return [seen.as_json() for seen in self.record.requests]
            case "GET", "/mock/in_flight":
                return self.record.series
            case "POST", "/mock/reset":
                self.record.reset()
                self.faults.ordered.clear()
            case "POST", "/mock/faults":
                self.faults.ordered.append(Fault.read(fields))
            case "DELETE", "/mock/faults":
                self.faults.ordered.clear()
            case "POST", "/mock/configure":
                self._configure(_changed(self.settings, fields))
            case _:
                raise ValueError(f"no such command: {request.method} {request.path}")
        return {}

    def _configure(self, settings: Settings) -> None:
        if settings.engine not in engine_metrics.NAMES:
            known = ", ".join(engine_metrics.NAMES)
            raise ValueError(f"no metrics of '{settings.engine}': use {known}, or omit --engine")
        try:
            profile = profile_named(settings.profile)
        except LbgenError as error:
            raise ValueError(str(error)) from None
        if not (
            settings.name.isascii() and settings.name.isprintable() and settings.name == settings.name.strip()
        ):
            raise ValueError(f"{settings.name!r} is not a name: it stands in a header, as printable ASCII")
        self.settings = settings
        profile = profile.with_slots(settings.slots)
        if settings.kv_tokens is not None:
            profile = profile._replace(kv_tokens=settings.kv_tokens)
        profile = profile._replace(**settings.changes)  # type: ignore[arg-type]  # numbers all
        self._caches = profile.prefix_cache
        self.gpu = Gpu(KeyedEngine(profile), settings.speed, self.record.late)
        self._ready_at = self._loop.time() + settings.load_s
        self._headers: tuple[Header, ...] = (("x-mock-server", settings.name),)

    def _state(self) -> dict[str, Any]:
        record = self.record
        return {
            "name": self.settings.name, "pid": os.getpid(), "in_flight": record.in_flight,
            "most_in_flight": record.most_in_flight, "running": self.gpu.running, "waiting": self.gpu.waiting,
            "hit_ratio": self.gpu.hit_ratio, "hit_tokens": self.gpu.hit_tokens,
            "finished_prompt_tokens": self.gpu.prompt_tokens, "prefix_cache": self._caches,
            "late_p99_s": record.lateness.at(0.99)[0],
            "outcomes": dict(record.outcomes), "paths": dict(record.paths),
            "generated_tokens": record.generated_tokens, "connections": len(self._server.connections) - 1,
        }  # fmt: skip


def _changed(settings: Settings, fields: dict[str, Any]) -> Settings:
    """Return settings with some fields replaced; raises `TypeError` for an unknown one."""
    old = {name: getattr(settings, name) for name in settings.__slots__}
    return Settings(**(old | {"load_s": 0.0} | fields))
