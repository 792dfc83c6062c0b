"""A server that notes when each piece of a request arrives, and how long one waits to be hung up on."""

from __future__ import annotations

import contextlib
import socketserver
import time
from typing import TYPE_CHECKING

from integration.background import Background

if TYPE_CHECKING:
    import socket


class Noting(Background):
    """Answers requests with ``Content-Length`` or in chunks once they have ended; a context manager."""

    allow_reuse_address = True

    def __init__(self, address: str) -> None:
        super().__init__((address, 0), _Connection)
        self.address = f"{address}:{self.socket.getsockname()[1]}"
        self.arrived: list[tuple[float, int]] = []
        """When, and how many bytes had come by then: of all connections, of headers and bodies."""


class _Connection(socketserver.BaseRequestHandler):
    """One connection with one request."""

    def handle(self) -> None:
        assert isinstance(self.server, Noting)
        came = b""
        while not _ended(came):
            piece = self.request.recv(65536)
            if not piece:
                return
            came += piece
            self.server.arrived.append((time.monotonic(), len(came)))
        with contextlib.suppress(OSError):
            self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


def _ended(came: bytes) -> bool:
    head, blank, body = came.partition(b"\r\n\r\n")
    if not blank:
        return False
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.partition(b":")[2])
        if line.startswith(b"transfer-encoding:"):
            return body.endswith(b"0\r\n\r\n")
    return True


def heard_after(connection: socket.socket, patience_s: float) -> tuple[float, bytes]:
    """Return after how many seconds the other side answered or hung up, and what it said.

    Infinite: not in this time.
    """
    connection.settimeout(patience_s)
    begun = time.monotonic()
    try:
        said = connection.recv(65536)
    except TimeoutError:
        return float("inf"), b""
    except ConnectionResetError:
        said = b""
    return time.monotonic() - begun, said
