"""Addresses to listen on, and TLS to the clients.

Profiles are those of Mozilla's server side TLS guideline, revision 5.7: *modern* is TLS 1.3 alone,
*intermediate* has TLS 1.2 with the guideline's ECDHE suites, as on NGINX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.quoting import quote
from lbgen.targets.tls_profiles import INTERMEDIATE_CIPHERS, TLS13_SUITES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener, ListenerTls
    from lbgen.targets.haproxy.assembly import Assembly
    from lbgen.units import Address


def binds(made: Assembly, listeners: tuple[Listener, ...], address: Address) -> Iterator[str]:
    """Yield the arguments of `bind` for one address of these listeners."""
    words = [""]
    secured = [listener for listener in listeners if listener.tls]
    http2 = any(listener.http2 for listener in listeners)
    if any(listener.accept_proxy and not listener.trusted_proxies for listener in listeners):
        words.append("accept-proxy")
    if secured:
        words += _tls_words(made, secured)
        words.append("alpn h2,http/1.1" if http2 else "alpn http/1.1")
    elif not http2:
        words.append("proto h1")
    yield from (f"{host}{' '.join(words)}" for host in _hosts(address))


def _hosts(address: Address) -> Iterator[str]:
    if address.host == "*":
        # Two sockets: on one for both, IPv4 addresses would show as ::ffff:10.0.0.1.
        yield f"0.0.0.0:{address.port}"
        yield f"[::]:{address.port} v6only"
    else:
        yield str(address)


def _tls_words(made: Assembly, listeners: list[Listener]) -> Iterator[str]:
    yield "ssl"
    settings = [listener.tls for listener in listeners if listener.tls]
    yield from dict.fromkeys(f"crt {_certificate(made, tls)}" for tls in settings)
    if all(tls.profile == "modern" for tls in settings):
        yield "ssl-min-ver TLSv1.3"
    else:
        yield f"ssl-min-ver TLSv1.2 ciphers {INTERMEDIATE_CIPHERS}"
    yield f"ciphersuites {TLS13_SUITES}"
    # A ticket key that is never changed would undo forward secrecy.
    yield "no-tls-tickets"
    for tls in settings:
        if tls.client_ca:
            yield f"ca-file {quote(tls.client_ca)} verify required"
            break


def _certificate(made: Assembly, tls: ListenerTls) -> str:
    if tls.bundle or tls.directory:
        return quote(tls.bundle or f"{(tls.directory or '').rstrip('/')}/")
    return made.pem(tls.certificate or "", tls.key)


def plain_binds(address: Address) -> Iterator[str]:
    """Yield the arguments of `bind` for an address without TLS."""
    yield from _hosts(address)
