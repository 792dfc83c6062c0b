"""Between a balancer and an engine: what the engine sent, to be held against what a client got."""

from __future__ import annotations

import io
import socket
import socketserver
import threading
from contextlib import suppress
from http.client import HTTPResponse
from typing import TYPE_CHECKING, cast

from integration.background import Background

if TYPE_CHECKING:
    from integration.real_engines.engines import Engine

PIECE = 65_536


class _Relay(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        tap = cast("Tap", self.server)
        with socket.create_connection(("127.0.0.1", tap.to)) as engine:
            asking = threading.Thread(target=_pump, args=(self.request, engine, bytearray()), daemon=True)
            asking.start()
            _pump(engine, self.request, tap.sent)
            asking.join()


class Tap(Background):
    """Passes on what comes for an engine, and keeps what the engine sends."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(("127.0.0.1", 0), _Relay)
        self.to = engine.port
        self.sent = bytearray()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def body(self) -> bytes:
        """Return the body of the answer that was sent since `sent` was cleared."""
        answer = HTTPResponse(cast("socket.socket", _Sent(bytes(self.sent))))
        answer.begin()
        return answer.read()


class _Sent:
    """Bytes, where a socket is asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _: str) -> io.BytesIO:
        """Return a file to read them from."""
        return io.BytesIO(self._data)


def _pump(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
    with suppress(OSError):
        while data := source.recv(PIECE):
            kept += data
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
