"""An HTTP/2 client over TLS: many requests on one connection, and when each piece of an answer came."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset, WindowUpdated

from lbgen.lab.load import Planned, Result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HOST = "llm.example.org"


class Http2(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._h2 = H2Connection(H2Configuration(header_encoding="utf-8"))
        self._results: dict[int, Result] = {}
        self._ended: dict[int, asyncio.Event] = {}
        self._window = asyncio.Event()
        self._lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello."""
        assert isinstance(transport, asyncio.Transport)
        assert transport.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        self._transport = transport
        self._h2.initiate_connection()
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Note what came, for which request, and when."""
        for event in self._h2.receive_data(data):
            if isinstance(event, DataReceived):
                self._piece(event)
            elif isinstance(event, ResponseReceived) and event.stream_id is not None:
                headers = {str(name): str(value) for name, value in event.headers or ()}
                self._results[event.stream_id].status = int(headers[":status"])
            elif isinstance(event, (StreamEnded, StreamReset)) and event.stream_id is not None:
                if isinstance(event, StreamReset):
                    self._results[event.stream_id].error = "StreamReset"
                self._ended[event.stream_id].set()
            elif isinstance(event, WindowUpdated):
                self._window.set()
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        """End what was in flight."""
        self._lost.set()
        for stream, ended in self._ended.items():
            if not ended.is_set():
                self._results[stream].error = f"ConnectionLost {error or ''}"
                ended.set()

    async def send(self, planned: Planned, begin: float) -> Result:
        """Send one generation now; `begin`: what times in the result count from, by `time.monotonic`."""
        stream = self._h2.get_next_available_stream_id()
        result = self._results[stream] = Result(planned, started_s=time.monotonic() - begin)
        self._ended[stream] = asyncio.Event()
        self._begin = begin
        body = json.dumps({"model": "mock", "stream": planned.stream, "prompt": planned.prompt,
                           "max_tokens": planned.output_tokens}).encode()  # fmt: skip
        names = {":method": "POST", ":path": "/v1/completions", ":scheme": "https", ":authority": HOST}
        sent = {**names, "content-type": "application/json", **planned.headers}
        self._h2.send_headers(stream, list(sent.items()))
        await self._send_body(stream, body)
        await self._ended[stream].wait()
        result.ended_s = time.monotonic() - begin
        return result

    async def close(self) -> None:
        """Hang up."""
        self._transport.abort()  # no farewell: `close` would wait for the other side's
        await self._lost.wait()

    async def _send_body(self, stream: int, body: bytes) -> None:
        while body:
            room = min(self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size)
            if room <= 0:
                self._window.clear()
                await self._window.wait()
                continue
            self._h2.send_data(stream, body[:room], end_stream=room >= len(body))
            body = body[room:]
            self._flush()

    def _piece(self, event: DataReceived) -> None:
        stream, data = event.stream_id or 0, event.data or b""
        self._h2.acknowledge_received_data(event.flow_controlled_length or 0, stream)
        result = self._results[stream]
        now = time.monotonic() - self._begin
        if not data:
            return  # the end of the answer alone
        result.first_s = now if result.first_s is None else result.first_s
        result.tail = (result.tail + data)[-64:]
        result.arrivals.append(now)

    def _flush(self) -> None:
        self._transport.write(self._h2.data_to_send())


@asynccontextmanager
async def connection(address: str, port: int, certificate: Path) -> AsyncIterator[Http2]:
    """Connect, and hang up afterwards."""
    trusting = ssl.create_default_context(cafile=str(certificate))
    trusting.set_alpn_protocols(["h2"])
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(Http2, address, port, ssl=trusting, server_hostname=HOST)
    try:
        yield client
    finally:
        await client.close()


def self_signed(folder: Path) -> tuple[Path, str]:
    """Make a certificate for `HOST`; return its file, and it with its key as text."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "edge.key"]
    name = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}", "-days", "2"]
    command = ["openssl", "req", "-x509", *key, *name, "-out", "edge.crt"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "edge.crt", (folder / "edge.crt").read_text() + (folder / "edge.key").read_text()
