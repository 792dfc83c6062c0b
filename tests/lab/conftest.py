"""A mock GPU server in this process, and means to call it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import pytest

from lbgen.lab.mock.mock_server import MockGpu, Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Lab(NamedTuple):
    """A running mock and a client for it."""

    mock: MockGpu
    client: aiohttp.ClientSession
    url: str
    port: int

    async def get(self, path: str) -> Any:
        async with self.client.get(self.url + path) as answer:
            return json.loads(await answer.read())

    async def command(self, method: str, name: str, /, **fields: Any) -> int:
        async with self.client.request(method, f"{self.url}/mock/{name}", json=fields) as answer:
            await answer.read()
            return answer.status

    async def complete(self, headers: dict[str, str] | None = None, **fields: Any) -> tuple[int, bytes]:
        body = {"prompt": "hi", "max_tokens": 8, **fields}
        async with self.client.post(f"{self.url}/v1/completions", json=body, headers=headers) as answer:
            return answer.status, await answer.read()


@pytest.fixture
def with_lab() -> Callable[..., Any]:
    """Run a coroutine function with a fresh mock."""

    def run(test: Callable[[Lab], Awaitable[Any]], keep_alive_s: float = 5.0, **settings: Any) -> Any:
        async def inside() -> Any:
            mock = MockGpu(Settings(**({"speed": 100.0, "name": "gpu-0"} | settings)), keep_alive_s)
            port = await mock.listen("127.0.0.1", 0)
            try:
                async with aiohttp.ClientSession() as client:
                    return await test(Lab(mock, client, f"http://127.0.0.1:{port}", port))
            finally:
                await mock.close()
                await asyncio.sleep(0.01)  # the broken connections' own clean-up

        return asyncio.run(inside())

    return run
