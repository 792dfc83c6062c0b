"""The running agent: one scrape loop for each server, one port for HAProxy, one for people and probes."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from aiohttp import ClientSession, ClientTimeout, TCPConnector

from lbgen.agent.pages import status_pages
from lbgen.descriptors import raise_descriptor_limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbgen.agent.watch import Agent
    from lbgen.units import Address

LINE_LIMIT = 512
"""Bytes of a question that are read; HAProxy's ``agent-send`` strings are shorter."""
BACKLOG = 4096
"""Questions that may wait to be taken: HAProxy asks for 1,000 servers within a second."""


async def run(agent: Agent, checks: Address, status: Address | None, started: Callable[[], None]) -> None:
    """Run until SIGTERM or SIGINT; raises `OSError` when an address is taken."""
    raise_descriptor_limit()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await asyncio.start_server(
        agent.serve_question, checks.host, checks.port, limit=LINE_LIMIT, backlog=BACKLOG, reuse_address=True
    )
    runner = await status_pages(agent, status) if status else None
    timeout = ClientTimeout(total=agent.patience_s)
    async with server, ClientSession(connector=TCPConnector(limit=0), timeout=timeout) as session:
        watched = agent.watched.values()
        tasks = [
            asyncio.create_task(agent.watch(session, one, agent.interval * number / len(watched)))
            for number, one in enumerate(watched)
        ]
        started()
        await stop.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if runner:
        await runner.cleanup()
