"""Listeners as `server` blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.answers import ANSWERS
from lbgen.targets.nginx import auth, cors
from lbgen.targets.nginx.binds import Binds, listen_lines
from lbgen.targets.nginx.errors import PREFIX, error_locations, error_pages, json_answer
from lbgen.targets.nginx.features import has
from lbgen.targets.nginx.frame import FILE_CACHE, Frame
from lbgen.targets.nginx.names import has_servers
from lbgen.targets.nginx.proxying import Manner, proxy, standard_hide
from lbgen.targets.nginx.quoting import quote, regex_word
from lbgen.targets.nginx.rates import limit_lines
from lbgen.targets.nginx.routing import route_locations
from lbgen.targets.nginx.status import status_locations
from lbgen.targets.nginx.tls import HSTS, server_tls
from lbgen.targets.nginx.views import Answer, Location, Pair, Site
from lbgen.targets.nginx.words import size, variable
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener
    from lbgen.targets.nginx.assembly import Assembly

_BODY_BUFFER = 1024**2
"""Prompts over the buffer (16 KB by default) cost about 40 ms of first token (measured on 1.22.1)."""


def sites(made: Assembly, access_log: Syntax) -> tuple[Site, ...]:
    """Return the server blocks of every listener."""
    binds = Binds(made.fleet, made.settings)
    found = []
    for listener in made.fleet.listeners:
        found.append(_site(made, listener, binds, access_log))
        found += _redirects(made, listener, access_log)
    found += [_unclaimed(made, first, lines, access_log) for first, lines in binds.unclaimed()]
    return tuple(_with_hsts_everywhere(_without_doubles(site)) for site in found)


def _without_doubles(site: Site) -> Site:
    """Keep the first of locations for one path, which NGINX would refuse: probes and ACME go before routes.

    `^~ /x/` and `/x/` are one to NGINX.
    """
    kept: dict[str, Location] = {}
    for location in site.locations:
        kept.setdefault(location.match.removeprefix("^~ "), location)
    return site._replace(locations=tuple(kept.values()))


def _with_hsts_everywhere(site: Site) -> Site:
    """Add HSTS to each location that has headers of its own, since those replace the server's."""
    if not any(line.startswith(f"add_header {HSTS.name}") for line in site.settings):
        return site
    locations = (
        location._replace(headers=(*location.headers, HSTS))
        if location.headers and HSTS not in location.headers
        else location
        for location in site.locations
    )
    return site._replace(locations=tuple(locations))


def _site(made: Assembly, listener: Listener, binds: Binds, access_log: Syntax) -> Site:
    client = auth.client_variable(made, listener)
    frame = _frame(made, listener, client)
    return Site(
        listener=listener.name,
        listens=binds.listens(listener),
        names=tuple(map(quote, listener.hosts)),
        http2=listener.http2 and has(made.settings.version, "http2_directive"),
        tls=server_tls(listener.tls),
        max_body=size(listener.max_body),
        buffer=size(max(_BODY_BUFFER, listener.inspect_body)),
        settings=(
            *_common_settings(listener, client, access_log),
            *_addresses(listener),
            *_headers_in(made),
        ),
        errors=frame.errors,
        locations=(
            *status_locations(made, listener),
            *_acme(made, listener),
            *route_locations(made, listener, frame),
            *auth.external_location(made, listener),
            *error_locations(frame.headers),
            *_internal_answers(),
        ),
        extra=tuple(map(Syntax, made.settings.raw.get("server", ()))),
    )


def _frame(made: Assembly, listener: Listener, client: Syntax) -> Frame:
    return Frame(
        checks=(*cors.checks(made, listener), *auth.checks(made, listener, client)),
        access=(*limit_lines(made, listener), *auth.external_access(made, listener)),
        headers=tuple(_response_headers(made, listener)),
        request_headers=(*_forwarded(made, listener), *auth.request_headers(made, listener)),
        hide=standard_hide(listener),
        errors=error_pages(),
        extra=tuple(map(Syntax, made.settings.raw.get("location", ()))),
        split_key="$lb_client" if listener.auth.clients else "$remote_addr",
        tunnels=listener.websocket or any(route.match.websocket for route in listener.routes),
        inspect=listener.inspect_body if listener.inspect_body < _BODY_BUFFER else None,
    )


def _common_settings(listener: Listener, client: Syntax, access_log: Syntax) -> Iterator[Syntax]:
    # Once more for the server: locations without headers of their own inherit it.
    hsts = (f"add_header {HSTS.name} {HSTS.value} always",) if listener.tls and listener.tls.hsts else ()
    lines = (
        f"access_log {access_log}",
        # For the log, also where a request fails before it is routed.
        f"set $lb_listener {listener.name}",
        'set $lb_pool ""',
        f"set $lb_client {client}",
        "uninitialized_variable_warn off",
        # An error inside an answer to an error is answered too.
        "recursive_error_pages on",
        "reset_timedout_connection on",
        # Paths are matched as the servers will see them.
        "merge_slashes off",
        *FILE_CACHE,
        # Else a body that came in several pieces would be looked at in its first one alone.
        "client_body_in_single_buffer on",
        "limit_req_status 429",
        "limit_conn_status 429",
    )
    return map(Syntax, (*lines, *hsts))


def _addresses(listener: Listener) -> Iterator[Syntax]:
    """Yield what makes $remote_addr the client's address behind proxies that are trusted."""
    trusted = listener.trusted_proxies or (("0.0.0.0/0", "::/0") if listener.accept_proxy else ())
    for network in trusted:
        yield Syntax(f"set_real_ip_from {network}")
    if trusted:
        yield Syntax(f"real_ip_header {'proxy_protocol' if listener.accept_proxy else 'X-Forwarded-For'}")
        yield Syntax("real_ip_recursive on")


def _headers_in(made: Assembly) -> Iterator[Syntax]:
    """Yield it for all listeners, if for one: the default server of a bind reads what comes before `Host`."""
    named = [listener.auth.header for listener in made.fleet.listeners]
    for route in (route for listener in made.fleet.listeners for route in listener.routes):
        named += [*route.match.headers, route.split_by.removeprefix("header:")]
    named += [str(pool.strategy.parameters.get("header") or "") for pool in made.fleet.pools]
    # Headers with an underscore are dropped by default, without a word in the log (seen on 1.22.1).
    if any("_" in name for name in named):
        yield Syntax("underscores_in_headers on")


def _forwarded(made: Assembly, listener: Listener) -> Iterator[tuple[str, str]]:
    """Yield X-Forwarded-Proto as a trusted proxy in front says it; from others it is our own scheme."""
    if not listener.trusted_proxies:
        return
    name = variable(made.listeners[listener.name])
    trusted = made.geo("$realip_remote_addr", f"$lb_trusted_{name}", listener.trusted_proxies)
    entries = [("default", "$scheme"), (regex_word(r"~^1:https?$"), "$http_x_forwarded_proto")]
    yield "X-Forwarded-Proto", made.map(f'"{trusted}:$http_x_forwarded_proto"', f"$lb_proto_{name}", entries)


def _response_headers(made: Assembly, listener: Listener) -> Iterator[Pair]:
    yield Pair(Syntax("X-Request-Id"), Syntax("$lb_request_id"))
    if listener.behind_proxy:
        yield Pair(Syntax("X-Accel-Buffering"), Syntax("no"))
    if listener.tls and listener.tls.hsts:
        yield HSTS
    yield from cors.response_headers(made, listener)


def _acme(made: Assembly, listener: Listener) -> Iterator[Location]:
    """Yield the location of ACME's HTTP-01 challenges: open to everybody, never redirected."""
    if listener.acme is None:
        return
    match = Syntax("^~ /.well-known/acme-challenge/")
    if listener.acme.webroot:
        root = Syntax(f"root {quote(listener.acme.webroot)}")
        yield Location(match, access=(Syntax("default_type text/plain"), root))
    elif listener.acme.pool and has_servers(pool := made.fleet.pool(listener.acme.pool)):
        yield Location(match, pool=quote(pool.name), proxy=proxy(made, pool, Manner()))


def _redirects(made: Assembly, listener: Listener, access_log: Syntax) -> Iterator[Site]:
    if not listener.redirect_from:
        return
    port = next((bind.port for bind in listener.binds), 443)
    suffix = "" if port == 443 else f":{port}"
    # 308: a POST stays a POST.
    answer = Answer(308, Syntax(f"https://$host{suffix}$request_uri"), Syntax("text/plain"))
    yield _bare(
        listener,
        tuple(line for bind in listener.redirect_from for line in listen_lines(bind, [])),
        (*_acme(made, listener), Location(Syntax("/"), answer=answer)),
        access_log,
    )._replace(names=tuple(map(quote, listener.hosts)))


def _unclaimed(made: Assembly, first: Listener, lines: tuple[Syntax, ...], access_log: Syntax) -> Site:
    """Return the server block for hosts that no listener of an address has."""
    nowhere = Location(Syntax("/"), answer=json_answer(ANSWERS["not_found"]))
    site = _bare(first, lines, (nowhere,), access_log)
    http2 = first.http2 and has(made.settings.version, "http2_directive")
    settings = tuple(_common_settings(first, Syntax('""'), access_log))
    return site._replace(tls=server_tls(first.tls), http2=http2, settings=settings)


def _bare(
    listener: Listener, listens: tuple[Syntax, ...], locations: tuple[Location, ...], access_log: Syntax
) -> Site:
    return Site(
        listener=listener.name,
        listens=listens,
        names=(),
        http2=False,
        tls=None,
        max_body=size(listener.max_body),
        buffer=size(_BODY_BUFFER),
        settings=tuple(_common_settings(listener._replace(tls=None), Syntax('""'), access_log)),
        errors=error_pages(),
        locations=(*locations, *error_locations(())),
    )


def _internal_answers() -> Iterator[Location]:
    """Yield what subrequests get: of probes, and of the mirror for whose sake a body is read."""
    for name, status in (("yes", 204), ("no", 503), ("read", 204)):
        answer = Answer(status, Syntax('""'), Syntax("text/plain"))
        yield Location(Syntax(f"= {PREFIX}{name}"), internal=True, quiet=True, answer=answer)
