"""MCP's own Python client and servers over Streamable HTTP: every call of a session finds its server."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from mcp import Client

from integration.fleets import Proxy
from integration.fronts import ENVOY, FRONTS, Front, front
from integration.mcp_servers import mcp_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.mcp_servers import Running
    from lbgen.lab.rig import Rig

pytestmark = pytest.mark.slow
SESSIONS, CALLS, AT_ONCE = 25, 8, 8
"""200 calls in all."""
LEARNS = {"name": "session", "learn": {"header": "Mcp-Session-Id"}}
INSERTS = {"name": "session", "insert": "mcp_session"}
"""Where the name of a session cannot be learned: the SDK's clients keep cookies."""


class Site(NamedTuple):
    """A balancer in front of three servers, of which it knows two or three."""

    one: Proxy | str
    front: Front
    servers: tuple[Running, ...]

    @property
    def url(self) -> str:
        return f"{self.front.url}/mcp"


def fleet(one: Proxy | str, servers: tuple[Running, ...]) -> dict[str, Any]:
    learns = one != ENVOY and (one.target == "haproxy" or one.version == "1.30")  # type: ignore[union-attr]
    pool = {"engine": "http", "servers": [server.address for server in servers], "health": False}
    return {
        "pools": {"tools": {**pool, "strategy": LEARNS if learns else INSERTS}},
        "listeners": {"public": {}},
    }


@pytest.fixture(scope="module", params=FRONTS, ids=str)
def site(
    request: pytest.FixtureRequest, rig: Rig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    with ExitStack() as stack:
        servers = tuple(stack.enter_context(mcp_server(f"mcp-{n}", rig.gateway)) for n in range(3))
        made = fleet(request.param, servers)
        running = stack.enter_context(front(rig, request.param, made, tmp_path_factory.mktemp("front")))
        yield Site(request.param, running, servers)


async def called(client: Client) -> str:
    """Call a tool, and return the name of the server that answered."""
    answer = await client.call_tool("whoami", {})
    assert not answer.is_error, answer
    (content,) = answer.content
    assert content.type == "text"
    return content.text


async def homes_of(clients: list[Client], times: int) -> list[set[str]]:
    """Call in every session, eight calls at once; return the servers that answered each session."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def go_on(client: Client) -> set[str]:
        found = set()
        for _ in range(times):
            async with turn:
                found.add(await called(client))
        return found

    return list(await asyncio.gather(*map(go_on, clients)))


async def sessions(stack: AsyncExitStack, url: str, count: int = SESSIONS) -> list[Client]:
    """Begin sessions: `legacy` is the handshake in which a server names one, as of 2025-11-25."""
    return [await stack.enter_async_context(Client(url, mode="legacy")) for _ in range(count)]


def test_every_call_of_a_session_finds_its_server(site: Site) -> None:
    async def talk() -> list[set[str]]:
        async with AsyncExitStack() as stack:
            return await homes_of(await sessions(stack, site.url), CALLS)

    homes = asyncio.run(talk())
    assert all(len(names) == 1 for names in homes), homes
    assert len(Counter(name for names in homes for name in names)) == 3


def test_a_reload_loses_no_session(site: Site) -> None:
    async def talk() -> tuple[list[set[str]], list[set[str]]]:
        async with AsyncExitStack() as stack:
            clients = await sessions(stack, site.url)
            before = await homes_of(clients, 1)
            if site.one == Proxy("bookworm", "haproxy"):
                # A process that is younger than 5 s hands no table over (2.6.12; not 3.0 and 3.2).
                await asyncio.sleep(6)
            changed = fleet(site.one, site.servers)
            changed["pools"]["tools"]["timeouts"] = {"idle": "7m"}
            await asyncio.to_thread(site.front.reload, changed)
            # HAProxy's new process serves a few hundredths of a second before it has the old one's table.
            await asyncio.sleep(1)
            return before, await homes_of(clients, 4)

    before, after = asyncio.run(talk())
    assert after == before


def test_clients_of_the_protocol_without_sessions_go_anywhere(site: Site) -> None:
    """As of 2026-07-28 a call is whole by itself: nothing has to be kept, and calls are spread."""

    async def talk() -> Counter[str]:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(Client(site.url)) for _ in range(6)]
            return Counter(name for names in await homes_of(clients, 6) for name in names)

    assert len(asyncio.run(talk())) >= 2
