"""Engines for tests: a page, or what goes wrong in place of one, on a port of this machine."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGE = """vllm:num_requests_running{engine="0"} 30
vllm:num_requests_waiting{engine="0"} 0
vllm:kv_cache_usage_perc{engine="0"} 0.3
"""


class Engine:
    """Answers every request with its page."""

    def __init__(self) -> None:
        self.page = PAGE
        self.head = "HTTP/1.1 200 OK"
        self.behaviour = "answers"
        """Or ``hangs``, ``cuts`` (the connection), ``floods`` (without end), ``babbles`` (no HTTP)."""
        self.asked = 0
        self._connections: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.asked += 1
                await self._answer(writer)
                await writer.drain()
        writer.transport.abort()
        self._connections.discard(task)

    async def close(self) -> None:
        """End all connections."""
        tasks = tuple(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        if self.behaviour == "hangs":
            await asyncio.sleep(60)
        elif self.behaviour == "cuts":
            raise ConnectionAbortedError
        elif self.behaviour == "babbles":
            writer.write(b"\x00\xff garbage\r\n\r\n")
        elif self.behaviour == "floods":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
        else:
            body = self.page.encode()
            writer.write(f"{self.head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


@asynccontextmanager
async def serving(engine: Engine, port: int = 0) -> AsyncIterator[int]:
    """Serve on a port; give its number."""
    server = await asyncio.start_server(engine.serve, "127.0.0.1", port, reuse_address=True)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await engine.close()
