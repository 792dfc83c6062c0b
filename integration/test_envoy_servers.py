"""Envoy in front of servers at Unix sockets and behind TLS, and answers that it makes itself."""

from __future__ import annotations

import socketserver
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest
import yaml

from integration.envoy_site import MockServer, mocks, pool, running
from integration.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("envoy_version")


class AtSocket(socketserver.ThreadingUnixStreamServer):
    """A server at a Unix socket."""

    daemon_threads = True
    seen: list[str]


class Handler(BaseHTTPRequestHandler):
    """Notes path and Host of each request."""

    server: AtSocket

    def do_GET(self) -> None:
        self.server.seen.append(f"{self.path} {self.headers['host']}")
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_servers_at_unix_sockets(tmp_path: Path) -> None:
    place = tmp_path / "gpu.sock"
    with AtSocket(str(place), Handler) as server:
        server.seen = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        one = {"engine": "vllm", "servers": [f"unix:{place}"], "health": {"interval": "500ms", "rise": 1}}
        with running({"pools": {"chat": one}}, tmp_path) as site:
            eventually(lambda: site.ask("/v1/models", headers={"Host": "a.example"}).status == 200, 10, "up")
        assert "/health localhost" in server.seen
        assert "/v1/models a.example" in server.seen
        server.shutdown()


def _certificate(folder: Path) -> Path:
    path = folder / "server.pem"
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-keyout", str(folder / "key.pem"), "-out", str(path), "-days", "2", "-subj", "/CN=gpu.example",
        "-addext", "subjectAltName=DNS:gpu.example,DNS:localhost",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    path.write_text(path.read_text() + (folder / "key.pem").read_text())
    return path


@pytest.mark.parametrize("tls", [True, {"server_name": "gpu.example"}])
def test_tls_by_the_systems_authorities(tls: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = MockServer("s0", context)
    one = {
        "servers": [f"localhost:{server.port}"], "engine": "vllm", "tls": tls, "health": False,
        "passive_health": False,
    }  # fmt: skip
    try:
        with running({"pools": {"chat": one}}, tmp_path) as site:
            assert site.ask("/v1/x").status == 503, "nobody signed the certificate"
        monkeypatch.setattr("lbgen.targets.envoy.pools.server_tls.SYSTEM_CA", str(certificate))
        with running({"pools": {"chat": one}}, tmp_path) as site:
            assert site.ask("/v1/x").status == 200
    finally:
        server.close()


def test_a_fixed_answer_beyond_envoys_own_bound(tmp_path: Path) -> None:
    text = "ü" * 4_000
    routes = [{"path": "/long", "respond": {"status": 404, "body": text}}, {"pool": "chat"}]
    with mocks(1) as servers:
        fleet = {"pools": {"chat": pool(servers)}, "listeners": {"public": {"routes": routes}}}
        with running(fleet, tmp_path) as site:
            answer = site.ask("/long")
            assert (answer.status, answer.body.decode()) == (404, text)
            table = next((site.folder / "routes").iterdir())
            assert "max_direct_response_body_size_bytes" in yaml.safe_load(table.read_text())["resources"][0]
