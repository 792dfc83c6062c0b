"""The same fleet on both targets of one generation, the same requests to both, and what came of them."""

from __future__ import annotations

import http.client
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from integration.fleets import NO_SECRETS, TARGETS, Proxy, files
from lbgen.lab.mock.echo import HEADER as ECHO
from lbgen.render import RenderedFile

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping, Sequence

    from lbgen.lab.boxes import Balancer
    from lbgen.lab.rig import Rig

HOST = "llm.example.org"


class Ask(NamedTuple):
    """A request, just as it goes over the wire."""

    path: str = "/"
    method: str = "GET"
    headers: Mapping[str, str] = NO_SECRETS
    body: bytes = b""
    host: str = HOST
    echo: Mapping[str, str] = NO_SECRETS
    """Headers that the server sends beside what it saw."""

    def __str__(self) -> str:
        return f"{self.method}-{self.host}{self.path}"


class Got(NamedTuple):
    """What a client got, and what the server saw if any did."""

    status: int
    headers: dict[str, str]
    """Names in lower case; the values of several headers of one name joined by a comma."""
    body: bytes
    seen: Any = None
    """What the server saw (see `lbgen.lab.mock.echo`), without what differs from one request to the next."""

    @property
    def server(self) -> str:
        """Which mock GPU server answered; empty: the balancer itself."""
        return self.headers.get("x-mock-server", "")

    @property
    def code(self) -> str:
        """OpenAI's ``error.code``."""
        assert self.headers.get("content-type") == "application/json", self
        return str(json.loads(self.body)["error"]["code"])

    def sent(self, name: str) -> str | None:
        """Return a request header as the server saw it."""
        values = [value for key, value in self.seen["headers"] if key == name]
        return ",".join(values) if values else None


class Edge(NamedTuple):
    """NGINX and HAProxy of one generation, for some modules Envoy as well, with one fleet."""

    generation: str
    balancers: dict[str, Balancer]
    rendered: dict[str, tuple[RenderedFile, ...]]

    def each(self, ask: Ask, port: int = 8080, tls: ssl.SSLContext | None = None) -> dict[str, Got]:
        """Send one request to each."""
        return {name: send(box.address, port, ask, tls) for name, box in self.balancers.items()}

    def same(self, ask: Ask, port: int = 8080, tls: ssl.SSLContext | None = None) -> Got:
        """Send one request to each, and return what came of it: the same on all, else `AssertionError`."""
        got = self.each(ask, port, tls)
        said = "\n".join(f"{name}: {comparable(got[name])}" for name in got)
        nginx = got["nginx"]
        assert all(comparable(got[target]) == comparable(nginx) for target in TARGETS), said
        assert all(_without_headers(one, ask) == _without_headers(nginx, ask) for one in got.values()), said
        return nginx


@contextmanager
def started(  # noqa: PLR0913, PLR0917 - one value each
    rig: Rig,
    fleet: dict[str, Any],
    generation: str,
    secrets: Mapping[str, str] = NO_SECRETS,
    beside: Mapping[str, str] = NO_SECRETS,
    targets: Sequence[str] = TARGETS,
) -> Iterator[Edge]:
    """Start a balancer of each target; `beside`: more files for the target's folder, such as certificates."""
    extra = tuple(RenderedFile(path, text) for path, text in beside.items())
    proxies = [Proxy(generation, target) for target in targets]
    rendered = {proxy.target: files(fleet, proxy, secrets) for proxy in proxies}

    def start(proxy: Proxy) -> Balancer:
        return rig.balancer(proxy.target, proxy.image, (*rendered[proxy.target], *extra))

    with ThreadPoolExecutor() as threads:
        balancers = list(threads.map(start, proxies))
    try:
        yield Edge(generation, dict(zip(targets, balancers, strict=True)), rendered)
    finally:
        for balancer in balancers:
            balancer.remove()


def send(address: str, port: int, ask: Ask, tls: ssl.SSLContext | None = None) -> Got:
    """Send a request on a connection of its own. Raises `OSError`."""
    connection = http.client.HTTPConnection(address, port, timeout=20)
    if tls is not None:
        connection.sock = _tls_socket(address, port, tls, ask.host)
    connection.putrequest(ask.method, ask.path, skip_host=True, skip_accept_encoding=True)
    headers = {"Host": ask.host, ECHO: json.dumps(dict(ask.echo)), **ask.headers}
    if ask.body:
        headers.setdefault("Content-Length", str(len(ask.body)))
    for name, value in headers.items():
        connection.putheader(name, value)
    try:
        # Who refuses a request may hang up before it has all come; the answer is there all the same.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.endheaders(ask.body or None)
        return _got(connection.getresponse())
    finally:
        connection.close()


def _tls_socket(address: str, port: int, tls: ssl.SSLContext, name: str) -> ssl.SSLSocket:
    """Return a connection whose server's certificate is for this name."""
    plain = socket.create_connection((address, port), timeout=20)
    return tls.wrap_socket(plain, server_hostname=name.partition(":")[0])


def _got(answer: http.client.HTTPResponse) -> Got:
    headers: dict[str, str] = {}
    for name, value in answer.getheaders():
        headers[name.lower()] = f"{headers[name.lower()]}, {value}" if name.lower() in headers else value
    body = answer.read()
    return Got(answer.status, headers, body, json.loads(body) if "x-mock-server" in headers else None)


def _without_headers(got: Got, ask: Ask) -> tuple[object, ...]:
    """Return what is the same on Envoy, too, which has headers of its own on what it answers itself."""
    # Its filter answers preflights with 200.
    status = 204 if (ask.method, got.status, got.body) == ("OPTIONS", 200, b"") else got.status
    return (status, *comparable(got)[2:])


OWN = ("date", "server", "connection", "keep-alive", "x-request-id", "content-length", "transfer-encoding")
"""Headers of an answer that say nothing of what a client asked for, or differ each time."""


def comparable(got: Got) -> tuple[object, ...]:
    """Return what has to be the same on both targets."""
    headers = {name: value for name, value in got.headers.items() if name not in OWN}
    if got.seen is None:
        return got.status, headers, got.body
    seen = sorted(tuple(header) for header in got.seen["headers"] if header[0] not in CHANGING)
    return got.status, headers, got.seen["method"], got.seen["target"], seen, got.seen["body_sha256"]


CHANGING = ("x-request-id",)
