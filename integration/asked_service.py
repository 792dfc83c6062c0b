"""A service that a balancer asks whether a request may pass."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from integration.background import Background


class AskedService(Background, ThreadingHTTPServer):
    """Lets `Bearer good` in, fails at `Bearer broken`, and remembers what it was asked; a context manager."""

    def __init__(self, address: str) -> None:
        super().__init__((address, 0), _Asked)
        self.url = f"http://{address}:{self.server_port}/check"
        self.questions: list[tuple[str, dict[str, str]]] = []
        """Paths, and headers with names in lower case."""


class _Asked(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, AskedService)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.questions.append((self.path, headers))
        answers = {None: 401, "Bearer good": 204, "Bearer broken": 500}
        self.send_response(answers.get(headers.get("authorization"), 403))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""
