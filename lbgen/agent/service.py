"""The running agent: one scrape loop for each server, one port for HAProxy, one for people and probes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web

from lbgen.agent.readings import read_page
from lbgen.agent.weights import Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbgen.engines import Metrics
    from lbgen.units import Address

LINE_LIMIT = 512
"""Bytes of a question that are read; HAProxy's ``agent-send`` strings are shorter."""
ASK_TIMEOUT_S = 5.0


class Watched(NamedTuple):
    """One server, and where it tells how busy it is."""

    pool: str
    name: str
    url: str
    metrics: Metrics


class Agent:
    """Scrapes, estimates, answers."""

    def __init__(self, watched: tuple[Watched, ...], limits: dict[str, float], interval: float) -> None:
        """`limits`: each pool's ``drain_above``; `interval`: seconds between two looks at a server."""
        self.watched, self.interval = watched, interval
        self.pools = {
            pool: Pool(tuple(one.name for one in watched if one.pool == pool), limit)
            for pool, limit in limits.items()
        }
        self.scrapes = self.failures = self.answers = 0

    def answer(self, question: str, now: float) -> str:
        """Return the answer to ``pool/server``; an unknown one is told nothing that would change it."""
        pool, _, server = question.strip().partition("/")
        try:
            weight = self.pools[pool].weight(server, now)
        except KeyError:
            return "\n"
        self.answers += 1
        # 'ready' and 'up' undo what an earlier agent may have said: HAProxy keeps the last word (2.6 to 3.2).
        return f"ready up {weight}%\n"

    async def watch(self, session: ClientSession, one: Watched, offset: float) -> None:
        """Look at one server again and again; a slow or dead one delays nobody else."""
        gauge = self.pools[one.pool].gauges[one.name]
        await asyncio.sleep(offset)
        while True:
            started = time.monotonic()
            try:
                async with session.get(one.url) as response:
                    page = await response.read()
                if response.status == 200:
                    gauge.observe(read_page(page, one.metrics), time.monotonic())
                self.scrapes += 1
            except (ClientError, TimeoutError, OSError):
                self.failures += 1
            await asyncio.sleep(max(0.05, self.interval - (time.monotonic() - started)))

    async def serve_question(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection of HAProxy's agent-check."""
        with contextlib.suppress(OSError, ValueError, TimeoutError):
            question = await asyncio.wait_for(reader.readline(), ASK_TIMEOUT_S)
            writer.write(self.answer(question.decode("utf-8", "replace"), time.monotonic()).encode())
            await writer.drain()
        writer.close()

    def page(self) -> str:
        """Return the agent's own metrics, in Prometheus text."""
        now = time.monotonic()
        lines = [
            "# TYPE lbgen_agent_scrapes_total counter", f"lbgen_agent_scrapes_total {self.scrapes}",
            "# TYPE lbgen_agent_scrape_failures_total counter",
            f"lbgen_agent_scrape_failures_total {self.failures}",
            "# TYPE lbgen_agent_answers_total counter", f"lbgen_agent_answers_total {self.answers}",
            "# TYPE lbgen_agent_weight_percent gauge",
        ]  # fmt: skip
        for pool_name, pool in self.pools.items():
            for name in pool.gauges:
                labels = f'pool="{pool_name}",server="{name}"'
                lines.append(f"lbgen_agent_weight_percent{{{labels}}} {pool.weight(name, now)}")
        return "\n".join(lines) + "\n"


async def run(agent: Agent, checks: Address, status: Address | None, started: Callable[[], None]) -> None:
    """Run until SIGTERM or SIGINT; raises `OSError` when an address is taken."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await asyncio.start_server(
        agent.serve_question, checks.host, checks.port, limit=LINE_LIMIT, reuse_address=True
    )
    runner = await _status_pages(agent, status) if status else None
    timeout = ClientTimeout(total=max(1.0, agent.interval * 2))
    async with server, ClientSession(connector=TCPConnector(limit=0), timeout=timeout) as session:
        watched = agent.watched
        tasks = [
            asyncio.create_task(agent.watch(session, one, agent.interval * number / len(watched)))
            for number, one in enumerate(watched)
        ]
        started()
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if runner:
        await runner.cleanup()


async def _status_pages(agent: Agent, address: Address) -> web.AppRunner:
    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(text=agent.page(), content_type="text/plain")

    async def health(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/health", health)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, address.host, address.port).start()
    return runner
