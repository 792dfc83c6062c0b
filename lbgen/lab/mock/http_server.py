"""A small HTTP/1.1 server on asyncio and h11, for the mock GPU server.

It exists because a mock has to do what no framework allows: reset a connection before
or after the headers, stop in the middle of a body, and notice at once that a client left.
h11 is pure Python, so the mock runs wherever a Python 3.11 is, with nothing installed.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

import h11

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence

MAX_HEADERS = 256 * 1024
"""Bytes of a request's header block that are taken, far above what a proxy lets through."""

HIGH_WATER = 256 * 1024
"""Bytes waiting to be sent from which on a writer has to wait for a slow client."""

WEBSOCKET = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""What a handshake's key is hashed with."""

Header = tuple[str, str]


class Request(NamedTuple):
    """A whole request, its body included; header names in lower case."""

    method: str
    path: str
    query: str
    headers: tuple[Header, ...]
    body: bytes
    client: str

    def header(self, name: str) -> str | None:
        """Return the first header of this name (lower case)."""
        return next((value for key, value in self.headers if key == name), None)


class ClientGone(Exception):  # noqa: N818 - an event like asyncio.CancelledError, not a mistake of ours
    """The client closed the connection before its answer was complete."""


class Exchange:
    """One request and the means to answer it; writing raises `ClientGone` when nobody listens any more."""

    def __init__(self, connection: Connection, request: Request) -> None:
        self._connection = connection
        self.request = request
        self.started = False

    async def respond(self, status: int, body: bytes, headers: Sequence[Header] = ()) -> None:
        """Send a whole answer of known length."""
        framed = (*headers, ("content-length", str(len(body))))
        self._start(status, framed)
        self._connection.send(h11.Data(data=body))
        await self.finish()

    async def start(self, status: int, headers: Sequence[Header] = ()) -> None:
        """Send the status and the headers of an answer whose length is not known (chunked)."""
        self._start(status, headers)
        await self._connection.drain()

    async def send(self, data: bytes) -> None:
        """Send one piece of the body, as one chunk."""
        self._connection.send(h11.Data(data=data))
        await self._connection.drain()

    async def finish(self) -> None:
        """End the answer."""
        self._connection.send(h11.EndOfMessage())
        await self._connection.drain()

    async def garbage(self, data: bytes) -> None:
        """Send bytes that are no HTTP answer, and close."""
        self._connection.raw(data)
        self._connection.close()

    def tunnel(self) -> None:
        """Switch to the protocol of a WebSocket handshake, and from now on send back every byte."""
        key = (self.request.header("sec-websocket-key") or "").encode()
        # RFC 6455, 4.2.2; HAProxy answers 502 without it.
        self._connection.tunnel(
            base64.b64encode(hashlib.sha1(key + WEBSOCKET, usedforsecurity=False).digest())
        )

    def hang_up(self) -> None:
        """Close the connection in an orderly way (FIN), wherever the answer stands."""
        self._connection.close()

    def reset(self) -> None:
        """Break the connection (RST), wherever the answer stands."""
        self._connection.reset()

    def _start(self, status: int, headers: Sequence[Header]) -> None:
        self.started = True
        self._connection.send(h11.Response(status_code=status, headers=list(headers)))


KEEP_ALIVE_S = 5.0
"""How long an idle connection is kept: what uvicorn does by default, and with it vLLM and SGLang."""


class Connection(asyncio.Protocol):
    """One client connection: requests one after the other, each in a task that dies with the connection."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._idle: asyncio.TimerHandle | None = None
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADERS)
        self._head: h11.Request | None = None
        self._body: list[bytes] = []
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._gone = False
        self._tunnels = False

    # asyncio calls the following

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a TCP server makes nothing else
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        # asyncio sets TCP_NODELAY by itself since 3.6; tokens must leave at once, so it is said again.
        _socket(transport).setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client = str(transport.get_extra_info("peername"))
        self._server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self._tunnels:
            self._transport.write(data)
            return
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._h11.receive_data(data)
        self._advance()

    def eof_received(self) -> bool:
        # A client that closes its side has left, as uvicorn sees it, whose behaviour vLLM and SGLang have.
        return False

    def connection_lost(self, _error: Exception | None) -> None:
        self._gone = True
        if self._idle is not None:
            self._idle.cancel()
        self._server.connections.discard(self)
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # an exchange calls the following

    def send(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        """Write one event; raises `ClientGone`."""
        data = self._h11.send(event)
        if data:
            self.raw(data)

    def raw(self, data: bytes) -> None:
        """Write bytes as they are; raises `ClientGone`."""
        if self._gone or self._transport.is_closing():
            raise ClientGone
        self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the client has taken most of what was written."""
        if not self._writable.is_set():
            await self._writable.wait()

    def tunnel(self, accepted: bytes) -> None:
        """Leave HTTP; raises `ClientGone`."""
        lines = (b"HTTP/1.1 101 Switching Protocols", b"connection: upgrade", b"upgrade: websocket")
        self.raw(b"\r\n".join((*lines, b"sec-websocket-accept: " + accepted, b"", b"")))
        self._tunnels = True

    def close(self) -> None:
        """Close after what was written has left."""
        self._transport.close()

    def reset(self) -> None:
        """Close with RST: a zero linger time throws away what was not yet sent."""
        if not self._transport.is_closing():
            _socket(self._transport).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def _advance(self) -> None:
        """Read events until a request is whole or more bytes are needed."""
        if self._task is not None:
            return
        try:
            while self._take(self._h11.next_event()):
                pass
        except h11.RemoteProtocolError:
            self.close()

    def _take(self, event: object) -> bool:
        """Digest one event; tell whether to go on."""
        if isinstance(event, h11.Request):
            self._head, self._body = event, []
            if self._h11.they_are_waiting_for_100_continue:
                self._transport.write(
                    self._h11.send(h11.InformationalResponse(status_code=100, headers=[])) or b""
                )
        elif isinstance(event, h11.Data):
            self._body.append(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            self._handle()
            return False
        elif isinstance(event, h11.ConnectionClosed):
            self.close()
            return False
        return event not in {h11.NEED_DATA, h11.PAUSED} if isinstance(event, type) else True

    def _handle(self) -> None:
        if self._idle is not None:  # the request came in the same piece as the one before
            self._idle.cancel()
            self._idle = None
        head = self._head
        assert head is not None  # noqa: S101 - h11 ends no message that it has not begun
        path, _, query = head.target.decode("latin-1").partition("?")
        request = Request(
            head.method.decode(),
            path,
            query,
            tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers),
            b"".join(self._body),
            self._client,
        )
        self._task = asyncio.get_running_loop().create_task(self._serve(Exchange(self, request)))

    async def _serve(self, exchange: Exchange) -> None:
        try:
            await self._server.handler(exchange)
        except ClientGone:
            return
        except Exception:
            self.close()
            raise
        self._task = None
        self._next()

    def _next(self) -> None:
        """Make ready for the next request of a kept-alive connection."""
        if self._gone or self._tunnels or self._transport.is_closing():
            return
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
            self._idle = asyncio.get_running_loop().call_later(self._server.keep_alive_s, self.close)
            self._advance()
        else:
            self.close()


class Server:
    """Listens and hands each request to one handler."""

    def __init__(
        self, handler: Callable[[Exchange], Awaitable[None]], keep_alive_s: float = KEEP_ALIVE_S
    ) -> None:
        self.handler = handler
        self.keep_alive_s = keep_alive_s
        self.connections: set[Connection] = set()
        self._servers: list[asyncio.Server] = []

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Begin to listen, there too; return the port, which the system chooses for 0. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(self), host, port, backlog=4096, ssl=tls)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening and break every connection."""
        for server in self._servers:
            server.close()
        for connection in tuple(self.connections):
            connection.reset()


def _socket(transport: asyncio.Transport) -> socket.socket:
    return transport.get_extra_info("socket")  # type: ignore[no-any-return]  # asyncio does not type it
