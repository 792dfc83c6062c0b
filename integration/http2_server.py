"""A server that speaks HTTP/2 without TLS and nothing else, for balancers whose pools have to speak it."""

from __future__ import annotations

import json
import socketserver
import threading
from collections import Counter
from typing import TYPE_CHECKING, Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded
from h2.exceptions import ProtocolError

if TYPE_CHECKING:
    from h2.events import Event

GRPC = "application/grpc"


class Http2Server(socketserver.ThreadingTCPServer):
    """Answers every request with what it saw, in JSON; use it as a context manager.

    A request of type `GRPC` gets the trailer ``grpc-status: 0``. What speaks HTTP/1 is hung up on.
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: str) -> None:
        super().__init__((address, 0), _Connection)
        self.address = f"{address}:{self.socket.getsockname()[1]}"
        self.asked: Counter[str] = Counter()
        """How many requests each path had."""
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Connection(socketserver.BaseRequestHandler):
    """One connection, with any number of requests."""

    def handle(self) -> None:
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._asked: dict[int, tuple[dict[str, str], bytearray]] = {}
        try:
            self._h2.initiate_connection()
            self._flush()
            while data := self.request.recv(65536):
                for event in self._h2.receive_data(data):
                    self._take(event)
                self._flush()
        except (ProtocolError, OSError):
            return  # no HTTP/2, or gone

    def _take(self, event: Event) -> None:
        if isinstance(event, RequestReceived) and event.stream_id is not None:
            headers = {str(name): str(value) for name, value in event.headers or ()}
            self._asked[event.stream_id] = headers, bytearray()
        elif isinstance(event, DataReceived):
            stream = event.stream_id or 0
            self._asked[stream][1].extend(event.data or b"")
            self._h2.acknowledge_received_data(event.flow_controlled_length or 0, stream)
        elif isinstance(event, StreamEnded) and event.stream_id is not None:
            self._answer(event.stream_id)

    def _answer(self, stream: int) -> None:
        headers, body = self._asked.pop(stream)
        assert isinstance(self.server, Http2Server)
        self.server.asked[headers[":path"]] += 1
        kind = headers.get("content-type", "application/json")
        self._h2.send_headers(stream, [(":status", "200"), ("content-type", kind)])
        seen = json.dumps({"headers": headers, "body_bytes": len(body)}).encode()
        self._h2.send_data(stream, seen, end_stream=kind != GRPC)
        if kind == GRPC:
            self._h2.send_headers(stream, [("grpc-status", "0")], end_stream=True)

    def _flush(self) -> None:
        self.request.sendall(self._h2.data_to_send())
