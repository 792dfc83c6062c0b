"""Asking a running listener over a connection of its own, as a client on this machine does."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lbgen.targets.registry import TARGETS
from lbgen.units import is_ip

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.model import Listener
    from lbgen.units import Address

_LOOPBACK = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


def place_of(listener: Listener) -> Address:
    """Return where the listener is to be reached from this machine."""
    bind = listener.binds[0]
    return bind._replace(host=_LOOPBACK.get(bind.host, bind.host))


def url_of(listener: Listener, path: str) -> str:
    """Return the address for people to try."""
    return f"{'https' if listener.tls else 'http'}://{place_of(listener)}{path}"


def host_of(listener: Listener) -> str:
    """Return a host name that the listener answers to."""
    return listener.hosts[0].replace("*", "lbgen", 1) if listener.hosts else "localhost"


def reason_of(error: Exception) -> str:
    """Return what went wrong with a connection, in words."""
    if isinstance(error, TimeoutError):
        return "in time"
    said = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return f"({said or type(error).__name__})"


@contextmanager
def asked(  # noqa: PLR0913 - one value each
    listener: Listener,
    target: str,
    path: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float,
) -> Iterator[http.client.HTTPResponse]:
    """Give the answer to a GET, or to a POST when there is a body.

    The certificate is not verified: it is this machine's own, often for a name that leads elsewhere.
    Raises `OSError` and `http.client.HTTPException`.
    """
    place = place_of(listener)
    connection = http.client.HTTPConnection(place.host, place.port)
    try:
        connection.sock = _connected(listener, target, timeout)
        said = {"Host": host_of(listener), "Connection": "close", **(headers or {})}
        connection.request("GET" if body is None else "POST", path, body, said)
        yield connection.getresponse()
    finally:
        connection.close()


def _connected(listener: Listener, target: str, timeout: float) -> socket.socket:
    connection = socket.create_connection(place_of(listener), timeout)
    try:
        if _says_proxy(listener, target):
            connection.sendall(b"PROXY UNKNOWN\r\n")
        if listener.tls is None:
            return connection
        context = ssl._create_unverified_context()  # noqa: S323, SLF001 - see `asked`
        return context.wrap_socket(connection, server_hostname=host_of(listener))
    except BaseException:
        connection.close()
        raise


def _says_proxy(listener: Listener, target: str) -> bool:
    """Tell whether the listener expects the PROXY protocol from this machine."""
    if not listener.accept_proxy or not listener.trusted_proxies or TARGETS[target].abilities.proxy_from_all:
        return listener.accept_proxy
    host = place_of(listener).host
    return is_ip(host) and any(
        ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
        for network in listener.trusted_proxies
    )
