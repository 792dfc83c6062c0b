"""Server blocks without routes: redirects to TLS, ACME, and hosts that no listener has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.nginx.errors import ALWAYS, KEYS, PROXIED, TLS, error_locations, error_pages
from lbgen.targets.nginx.features import has
from lbgen.targets.nginx.guards import forwarding
from lbgen.targets.nginx.language.quoting import quote
from lbgen.targets.nginx.language.words import size
from lbgen.targets.nginx.listeners.binds import listen_lines
from lbgen.targets.nginx.listeners.server_settings import (
    BODY_BUFFER,
    common_settings,
    header_buffers,
    timeouts,
)
from lbgen.targets.nginx.listeners.status import status_locations
from lbgen.targets.nginx.listeners.tls import server_tls
from lbgen.targets.nginx.pools.proxying import Manner, proxy
from lbgen.targets.nginx.views import Answer, Location, Site
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener
    from lbgen.targets.nginx.assembly import Assembly


def acme(made: Assembly, listener: Listener) -> Iterator[Location]:
    """Yield the location of ACME's HTTP-01 challenges: open to everybody, never redirected."""
    if listener.acme is None:
        return
    match = Syntax("^~ /.well-known/acme-challenge/")
    if listener.acme.webroot:
        root = Syntax(f"root {quote(listener.acme.webroot)}")
        yield Location(match, access=(Syntax("default_type text/plain"), root))
    elif listener.acme.pool and (pool := made.fleet.pool(listener.acme.pool)).has_servers:
        headers = tuple(forwarding.request_headers(made, listener))
        yield Location(match, pool=quote(pool.name), proxy=proxy(made, pool, Manner(headers)))


def redirects(made: Assembly, listener: Listener) -> Iterator[Site]:
    """Yield the server block that sends plain requests on to TLS."""
    if not listener.redirect_from:
        return
    port = next((bind.port for bind in listener.binds), 443)
    suffix = "" if port == 443 else f":{port}"
    # 308, so that a POST remains a POST.
    answer = Answer(308, Syntax(f"https://$host{suffix}$request_uri"), Syntax("text/plain"))
    yield _bare(
        made,
        listener._replace(tls=None),
        tuple(line for bind in listener.redirect_from for line in listen_lines(bind)),
        (*acme(made, listener), Location(Syntax("/"), answer=answer)),
    )._replace(names=tuple(map(quote, listener.hosts)))


def unclaimed(made: Assembly, sharing: tuple[Listener, ...], lines: tuple[Syntax, ...]) -> Site:
    """Return the server block for hosts that no listener of an address has: probes by address, and 404."""
    first = sharing[0]
    routes = tuple(route for listener in sharing for route in listener.routes)
    header = max(listener.timeouts.header for listener in sharing)
    probed = first._replace(
        routes=routes,
        header_size=max(listener.header_size for listener in sharing),
        timeouts=first.timeouts._replace(header=header),
    )
    site = _bare(made, probed, lines, (Location(Syntax("/"), answer=Answer(404)),))
    site = site._replace(probes=tuple(status_locations(made, probed)))
    http2 = first.http2 and has(made.settings.version, "http2_directive")
    # Nobody's authority: who names no host, or another, is asked for no certificate.
    tls = first.tls._replace(client_ca=None) if first.tls else None
    return site._replace(tls=server_tls(tls), http2=http2)


def _bare(
    made: Assembly,
    listener: Listener,
    listens: tuple[Syntax, ...],
    routes: tuple[Location, ...],
) -> Site:
    occasions = (*ALWAYS, *PROXIED, *TLS, *KEYS)
    open_to_all = listener._replace(limits=(), auth=listener.auth._replace(clients=()))
    return Site(
        listener=listener.name,
        listens=listens,
        names=(),
        http2=False,
        tls=None,
        max_body=size(listener.max_body),
        buffer=size(BODY_BUFFER),
        settings=(
            *common_settings(made, open_to_all, Syntax('""')),
            *header_buffers(listener.header_size),
            *timeouts(listener.timeouts),
        ),
        routes=routes,
        probes=(),
        errors=error_pages(occasions),
        answers=tuple(error_locations(made, occasions, ())),
    )
