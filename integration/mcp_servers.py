"""MCP servers of the Python SDK over Streamable HTTP, which keep their sessions to themselves."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from integration.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator


class Running(NamedTuple):
    """One server that runs in a thread."""

    name: str
    address: str
    port: int


@contextmanager
def mcp_server(name: str, address: str) -> Iterator[Running]:
    """Start a server whose tool `whoami` answers with its name."""
    server = MCPServer(name, log_level="ERROR")

    @server.tool()
    def whoami() -> str:
        return name

    # It takes no other host than localhost by itself: behind a balancer this has to be said.
    hosts = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(transport_security=hosts, host=address)
    config = uvicorn.Config(
        app, host=address, port=0, log_level="error", ws="none", timeout_graceful_shutdown=1
    )
    serving = uvicorn.Server(config)
    thread = threading.Thread(target=serving.run, daemon=True)
    thread.start()
    try:
        eventually(lambda: serving.started, 30, f"{name} listens")
        port = int(serving.servers[0].sockets[0].getsockname()[1])
        yield Running(name, f"{address}:{port}", port)
    finally:
        serving.should_exit = True
        thread.join(30)
