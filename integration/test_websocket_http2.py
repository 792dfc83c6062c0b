"""WebSockets of clients that speak HTTP/2: not offered within it, open over HTTP/1.1 beside it."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from typing import TYPE_CHECKING, NamedTuple, Self

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, RemoteSettingsChanged, ResponseReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes
from websockets.sync.client import connect
from websockets.sync.server import serve

from integration.fleets import THREE, files
from integration.http2 import HOST, self_signed
from integration.test_realtime import realtime
from lbgen.render import RenderedFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from integration.fleets import Proxy
    from lbgen.lab.boxes import Balancer
    from lbgen.lab.rig import Rig

TRIES = THREE
PORT = 8443


class Site(NamedTuple):
    """A balancer with TLS and HTTP/2 that passes WebSockets on."""

    box: Balancer
    certificate: Path

    def trusting(self, protocol: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.certificate))
        context.set_alpn_protocols([protocol])
        return context


@pytest.fixture(scope="module")
def site(module_proxy: Proxy, rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    certificate, bundle = self_signed(tmp_path_factory.mktemp("tls"))
    with serve(realtime, rig.gateway, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"{rig.gateway}:{server.socket.getsockname()[1]}"
        fleet = {
            "pools": {"voice": {"engine": "http", "servers": [address], "health": False}},
            "listeners": {
                "plain": {"bind": 8080, "routes": [{"pool": "voice"}]},
                "public": {"bind": PORT, "tls": {"bundle": "edge.pem"}, "websocket": True},
            },
        }
        rendered = (*files(fleet, module_proxy), RenderedFile("edge.pem", bundle))
        box = rig.balancer(module_proxy.target, module_proxy.image, rendered)
        try:
            yield Site(box, certificate)
        finally:
            box.remove()


class Client:
    """An HTTP/2 connection; a context manager."""

    def __init__(self, site: Site) -> None:
        plain = socket.create_connection((site.box.address, PORT), timeout=20)
        self._socket = site.trusting("h2").wrap_socket(plain, server_hostname=HOST)
        assert self._socket.selected_alpn_protocol() == "h2"
        self._h2 = H2Connection(H2Configuration(header_encoding="utf-8", validate_outbound_headers=False))
        self._h2.initiate_connection()
        self._flush()
        self.settings: dict[int, int] = {}
        self._pieces: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, *headers: tuple[str, str], end: bool) -> int | None:
        """Send the headers of a request; return its status, or None where the stream or all is broken off."""
        stream = self._h2.get_next_available_stream_id()
        self._h2.send_headers(stream, list(headers), end_stream=end)
        self._flush()
        while data := self._received():
            events = self._h2.receive_data(data)
            self._note(events)
            for event in events:
                if isinstance(event, RemoteSettingsChanged):
                    self.settings |= {code: one.new_value for code, one in event.changed_settings.items()}
                elif isinstance(event, ResponseReceived):
                    found = {str(name): str(value) for name, value in event.headers or ()}
                    return int(found[":status"])
                elif isinstance(event, (StreamReset, StreamEnded)):
                    return None
            self._flush()
        return None

    def heard(self) -> bytes:
        """Return the next bytes of an answer that has begun, or nothing where it ends."""
        while not self._pieces and (data := self._received()):
            self._note(self._h2.receive_data(data))
        return b"".join(self._pieces)

    def _note(self, events: list[Event]) -> None:
        self._pieces += [event.data or b"" for event in events if isinstance(event, DataReceived)]

    def _received(self) -> bytes:
        try:
            return self._socket.recv(65536)
        except ConnectionResetError:
            return b""

    def _flush(self) -> None:
        self._socket.sendall(self._h2.data_to_send())


COMMON = ((":scheme", "https"), (":authority", HOST))
PROBE = ((":method", "GET"), (":path", "/lb/live"), *COMMON)
EXTENDED = (
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":path", "/v1/realtime"),
    *COMMON,
    ("sec-websocket-version", "13"),
)


def test_it_is_not_offered(site: Site) -> None:
    """A client that is told so opens a WebSocket on another connection, of HTTP/1.1."""
    with Client(site) as client:
        assert client.ask(*PROBE, end=True) == 200
        assert not client.settings.get(SettingCodes.ENABLE_CONNECT_PROTOCOL)


def test_who_opens_one_all_the_same_is_refused_or_served(site: Site) -> None:
    """HAProxy 2.6.12 serves what it has not offered; the others refuse it."""
    with Client(site) as client:
        status = client.ask(*EXTENDED, end=False)
        assert status is None or status == 200 or 400 <= status < 500, status
        assert status != 200 or b"session.created" in client.heard()
    with Client(site) as client:
        assert client.ask(*PROBE, end=True) == 200, site.box.logs()


def test_it_opens_over_http_1_beside_it(site: Site) -> None:
    with (
        socket.create_connection((site.box.address, PORT), timeout=20) as plain,
        connect(
            f"wss://{HOST}:{PORT}/v1/realtime", sock=plain, ssl=site.trusting("http/1.1"), open_timeout=60
        ) as opened,
    ):
        assert json.loads(opened.recv(20))["session"]["path"] == "/v1/realtime"
        opened.send("ping")
        assert opened.recv(20) == "ping"
