"""Servers that keep sessions to themselves, as MCP servers, Gradio and the Responses API do.

Each knows what it began itself, and answers 404 to what another one did.
"""

from __future__ import annotations

import json
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from integration.background import Background

BUSY_S = 0.03
"""How long an answer takes, so that requests overlap."""
MCP = "Mcp-Session-Id"


class StatefulServer(Background, ThreadingHTTPServer):
    """One server; a context manager."""

    request_queue_size = 256

    def __init__(self, address: str) -> None:
        super().__init__((address, 0), _Handler)
        self.address = f"{address}:{self.server_port}"
        self.known: set[str] = set()

    def handle_error(self, *_: object) -> None:
        """Say nothing of health checks that hang up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StatefulServer

    def do_GET(self) -> None:
        """Answer Gradio's page, which begins nothing, and its events, which belong to what was joined."""
        _, _, session = self.path.partition("session_hash=")
        self._answer(200 if not session or session in self.server.known else 404)

    def do_POST(self) -> None:
        """Begin a session, or go on with one."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}")
        time.sleep(BUSY_S)
        if self.path.endswith("/mcp"):
            self._mcp(self.headers.get(MCP))
        elif self.path.endswith("/join"):
            self.server.known.add(body["session_hash"])
            self._answer(200)
        else:
            self._response(body.get("previous_response_id"))

    def _mcp(self, session: str | None) -> None:
        if session:
            self._answer(200 if session in self.server.known else 404)
        else:
            self._answer(200, {MCP: self._begin()})

    def _response(self, previous: str | None) -> None:
        if previous and previous not in self.server.known:
            self._answer(404)
        else:
            self._answer(200, id=self._begin())

    def _begin(self) -> str:
        name = uuid.uuid4().hex
        self.server.known.add(name)
        return name

    def _answer(self, status: int, headers: dict[str, str] | None = None, **fields: Any) -> None:
        body = json.dumps({"server": self.server.address, **fields}).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
