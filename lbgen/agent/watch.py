"""The agent: it looks at each server again and again, and answers what HAProxy asks."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from aiohttp import ClientError

from lbgen.agent.readings import read_page

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from aiohttp import ClientResponse, ClientSession

    from lbgen.agent.weights import Pool
    from lbgen.engines import Metrics

ASK_TIMEOUT_S = 5.0
PATIENCE_S = 5.0
"""How long an engine may take for its page: busy ones take seconds, and their figures are worth the wait."""
OK = 200
PAGE_LIMIT = 8 * 1024**2
"""Bytes of a metrics page; real ones have 20 to 500 kB."""


class TlsWords(TypedDict):
    """How a server's certificate is checked, in aiohttp's words."""

    ssl: ssl.SSLContext | bool
    server_hostname: str | None


PLAIN: TlsWords = {"ssl": True, "server_hostname": None}


class Watched(NamedTuple):
    """One server, and where it tells how busy it is."""

    pool: str
    name: str
    url: str
    metrics: Metrics
    cap: int | None = None
    """The most requests in flight that the fleet file allows each balancer; None: any number."""
    tls: TlsWords | None = None


class Agent:
    """Scrapes, estimates, answers."""

    def __init__(self, watched: tuple[Watched, ...], pools: Mapping[str, Pool], interval: float) -> None:
        """`interval`: seconds between two looks at a server."""
        self.watched = {(one.pool, one.name): one for one in watched}
        self.pools, self.interval = pools, interval
        self.patience_s = PATIENCE_S
        self.scrapes = self.failures = self.answers = 0

    def answer(self, question: str, now: float) -> str:
        """Return the answer to ``pool/server``; what is unknown is told nothing that would change it."""
        pool, _, server = question.strip().partition("/")
        one = self.watched.get((pool, server))
        verdict = self.pools[pool].verdict(server, now) if one else None
        if one is None or verdict is None:
            return "\n"
        self.answers += 1
        cap = self.cap_of(one, verdict.cap)
        # HAProxy keeps what it is not told anew; 0 lifts its limit. No 'ready': that would take back what an
        # operator drained or put into maintenance by hand (seen on 2.6 to 3.2); 'up' does not.
        return f"up {verdict.percent}% maxconn:{cap or 0}\n"

    @staticmethod
    def cap_of(one: Watched, learned: int | None) -> int | None:
        """Return the smaller of what was learned and what the fleet file allows."""
        return min((cap for cap in (learned, one.cap) if cap), default=None)

    async def watch(self, session: ClientSession, one: Watched, offset: float) -> None:
        """Look at one server again and again; a slow or dead one delays nobody else."""
        gauge = self.pools[one.pool].gauges[one.name]
        await asyncio.sleep(offset)
        while True:
            started = time.monotonic()
            try:
                async with session.get(one.url, allow_redirects=False, **(one.tls or PLAIN)) as response:
                    page = await _body(response)
                gauge.observe(read_page(page, one.metrics), time.monotonic())
                self.scrapes += 1
            except (ClientError, TimeoutError, OSError, ValueError):
                self.failures += 1
            await asyncio.sleep(max(0.05, self.interval - (time.monotonic() - started)))

    async def serve_question(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection of HAProxy's agent-check."""
        with contextlib.suppress(OSError, ValueError, TimeoutError):
            question = await asyncio.wait_for(reader.readline(), ASK_TIMEOUT_S)
            writer.write(self.answer(question.decode("utf-8", "replace"), time.monotonic()).encode())
            await writer.drain()
        writer.close()


async def _body(response: ClientResponse) -> bytes:
    """Return a page; raises `ValueError` for what is none, or has no end."""
    if response.status != OK:
        raise ValueError(f"a response with status {response.status}")
    page = b""
    async for part in response.content.iter_any():
        page += part
        if len(page) > PAGE_LIMIT:
            raise ValueError(f"a metrics page of more than {PAGE_LIMIT} bytes")
    return page
