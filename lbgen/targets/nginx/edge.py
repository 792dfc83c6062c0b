"""Listeners as `server` blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.answers import ANSWERS
from lbgen.targets.nginx import access, auth, conditions, cors, forwarding
from lbgen.targets.nginx.affinity import decides
from lbgen.targets.nginx.binds import Binds, listen_lines
from lbgen.targets.nginx.errors import (
    ADDRESSES,
    ADMIN,
    ALWAYS,
    CERTIFICATES,
    KEYS,
    LIMITS,
    MISDIRECTED,
    MODELS,
    PROXIED,
    TLS,
    answer_location,
    error_locations,
    error_pages,
)
from lbgen.targets.nginx.features import has
from lbgen.targets.nginx.frame import Frame
from lbgen.targets.nginx.logs import access_log, logged_listener
from lbgen.targets.nginx.names import has_servers
from lbgen.targets.nginx.proxying import Manner, proxy, standard_hide
from lbgen.targets.nginx.quoting import quote, regex_word
from lbgen.targets.nginx.rates import ip_limit_lines, limit_lines
from lbgen.targets.nginx.response_headers import changed
from lbgen.targets.nginx.routing import route_locations
from lbgen.targets.nginx.shared import with_shared
from lbgen.targets.nginx.status import status_locations
from lbgen.targets.nginx.tls import HSTS, server_tls
from lbgen.targets.nginx.views import Answer, Check, Location, Pair, Site
from lbgen.targets.nginx.words import duration, size
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import ClientTimeouts, Listener
    from lbgen.targets.nginx.assembly import Assembly

_LINE_KIB = 4
"""For the request line, and for the name of a header that is as long as may be."""
_READ = Location(Syntax("= /.lbgen/read"), internal=True, answer=Answer(204, Syntax('""')))
"""What the mirror gets for whose sake a body is read."""
_UPLOAD = 32 * 1024**2
"""Bytes of a form that are looked at: OpenAI takes 25 MB of audio, and 16 pictures of an edit have less."""
_BODY_BUFFER = 1024**2
"""Prompts over the buffer (16 KB by default) cost about 40 ms of first token (measured on 1.22.1)."""


_FILE_CACHE = ("open_file_cache max=16 inactive=1h", "open_file_cache_valid 1h", "open_file_cache_errors on")
"""For routes by conditions: `try_files` looks for a file that is not there, to go on to a named location."""


def sites(made: Assembly) -> tuple[Site, ...]:
    """Return the server blocks of every listener."""
    binds = Binds(made.fleet, made.settings)
    found = []
    for listener in made.fleet.listeners:
        found.append(_site(made, listener, binds))
        found += _redirects(made, listener)
    found += [_unclaimed(made, sharing, lines) for sharing, lines in binds.unclaimed()]
    return tuple(with_shared(_with_hsts_everywhere(_without_doubles(site))) for site in found)


def with_whole_bodies(site: Site) -> Site:
    """Return the block with what lets bodies be looked at that came in several pieces."""
    return site._replace(settings=(*site.settings, Syntax("client_body_in_single_buffer on")))


def _without_doubles(site: Site) -> Site:
    """Keep the first of locations for one path, which NGINX would refuse: probes and ACME go before routes.

    `^~ /x/` and `/x/` are one to NGINX.
    """
    taken = {location.match for location in site.probes}
    kept: dict[str, Location] = {}
    for location in site.routes:
        match = location.match.removeprefix("^~ ")
        if match not in taken:
            kept.setdefault(match, location)
    return site._replace(routes=tuple(kept.values()))


def _with_hsts_everywhere(site: Site) -> Site:
    """Add HSTS to each location that has headers of its own, since those replace the server's."""
    if not any(line.startswith(f"add_header {HSTS.name}") for line in site.settings):
        return site
    return site.each(
        lambda location: (
            location._replace(headers=(*location.headers, HSTS))
            if location.headers and HSTS not in location.headers
            else location
        )
    )


def _site(made: Assembly, listener: Listener, binds: Binds) -> Site:
    client = auth.client_variable(made, listener)
    occasions = _occasions(made, listener)
    checks = (
        _malformed(made),
        *_connection_checks(binds, listener),
        *access.checks(made, listener),
        *cors.checks(made, listener),
        *auth.checks(made, listener, client),
        *conditions.query_checks(made, listener),
    )
    frame = _frame(made, listener, checks, occasions)
    routes = tuple(route_locations(made, listener, frame))
    return Site(
        listener=listener.name,
        listens=binds.listens(listener),
        names=tuple(map(quote, listener.hosts)),
        http2=listener.http2 and has(made.settings.version, "http2_directive"),
        tls=server_tls(listener.tls),
        max_body=size(listener.max_body),
        buffer=size(max(_BODY_BUFFER, listener.inspect_body)),
        settings=(
            *_common_settings(made, listener, client),
            *(map(Syntax, _FILE_CACHE) if any(location.dispatch for location in routes) else ()),
            *forwarding.real_address(listener),
            *forwarding.underscores(made),
            *_header_buffers(binds.header_size(listener)),
            *_timeouts(listener.timeouts._replace(header=binds.header_timeout(listener))),
        ),
        routes=(
            *_acme(made, listener),
            *routes,
            *auth.external_location(made, listener),
            *([_READ] if any(location.reads for location in routes) else ()),
        ),
        probes=tuple(status_locations(made, listener)),
        errors=frame.errors,
        answers=tuple(_answers(made, listener, frame, occasions)),
        extra=tuple(map(Syntax, made.settings.raw.get("server", ()))),
    )


def _answers(
    made: Assembly, listener: Listener, frame: Frame, occasions: tuple[str, ...]
) -> Iterator[Location]:
    counted = tuple(_unauthorized(made, listener, frame))
    replaced = {location.match for location in counted}
    yield from counted
    for location in error_locations(made, occasions, frame.headers):
        if location.match not in replaced:
            yield location


def _frame(
    made: Assembly, listener: Listener, checks: tuple[Check, ...], occasions: tuple[str, ...]
) -> Frame:
    return Frame(
        listener=listener,
        checks=checks,
        access=(*limit_lines(made, listener), *auth.external_access(made, listener)),
        headers=changed(made, tuple(_response_headers(made, listener)), listener.response_headers),
        request_headers=(*forwarding.request_headers(made, listener), *auth.request_headers(made, listener)),
        hide=standard_hide(listener),
        errors=error_pages(occasions),
        extra=tuple(map(Syntax, made.settings.raw.get("location", ()))),
        split_key="$lb_client" if listener.auth.clients else "$remote_addr",
        tunnels=any(map(listener.tunnels, listener.routes)),
        websocket=listener.websocket,
        inspect=listener.inspect_body,
        upload=size(max(listener.inspect_body, min(listener.max_body, _UPLOAD))),
    )


def _malformed(made: Assembly) -> Check:
    """Return the check that refuses what others may read in another way than NGINX does.

    A path with dot segments may leave its route; with `#` it ends there for NGINX, and is passed on whole.
    Two headers that decide are one with a comma to NGINX (from 1.23 on); older ones see the first, and so
    does the server then.
    """
    entries = [
        ("default", "0"),
        (regex_word("~*^[^? ]*(?:/|%2f)(?:[.]|%2e){1,2}(?:/|%2f|[? ]|$)|^[^ ]*#"), "1"),
    ]
    source = "$request_uri"
    if has(made.settings.version, "joined_headers"):
        source = '"$request_uri $http_origin $http_x_api_key"'
        entries.append((regex_word("~^[^ ]* .*, "), "1"))
    why = "Refused: dot segments may leave a route, and some servers end a path at '#'."
    return Check(made.map(source, "$lb_malformed", entries, why), 400)


def _connection_checks(binds: Binds, listener: Listener) -> Iterator[Check]:
    """Yield the check that a client certificate was asked for by this listener.

    Without a server name, or with one that no listener has, it is the default server that asks, and NGINX
    takes a certificate of the default's authority for the other's (seen on 1.22.1 to 1.30.6). It does see by
    itself that another name was given (421).
    """
    default = binds.default(listener)
    own = listener.tls and listener.tls.client_ca
    if own and listener.hosts and default and default.tls and default.tls.client_ca not in {None, own}:
        yield Check(Syntax("$ssl_server_name != $host"), 421)


def _occasions(made: Assembly, listener: Listener) -> tuple[str, ...]:
    """Return the names of the answers that this listener's block may have to give."""
    raw = any(made.settings.raw.values())
    auth_asked = listener.auth.required or bool(listener.acme)
    matches = [route.match for route in listener.routes]
    authorities = any(one.tls and one.tls.client_ca for one in made.fleet.listeners)
    return (
        *ALWAYS,
        *PROXIED,
        *(TLS if listener.tls else ()),
        *(CERTIFICATES if listener.tls and listener.tls.client_ca else ()),
        *(MISDIRECTED if listener.tls and authorities else ()),
        *(ADDRESSES if listener.allow or listener.deny else ()),
        *(ADMIN if _guarded(made, listener) else ()),
        *(KEYS if auth_asked or raw else ()),
        *(LIMITS if raw or any(limit_lines(made, listener)) else ()),
        *(MODELS if any(map(conditions.looks_inside, matches)) else ()),
    )


def _guarded(made: Assembly, listener: Listener) -> bool:
    """Tell whether a pool of the listener has admin paths that are refused."""
    pools = (made.fleet.pool(name) for route in listener.routes for name in route.pools)
    return any(not pool.admin.open for pool in pools)


def _unauthorized(made: Assembly, listener: Listener, frame: Frame) -> Iterator[Location]:
    """Yield the location where a wrong key is counted against the limits of its address.

    It comes before the location of that name that only answers: its `return` would be carried out before
    anything is counted.
    """
    counted = tuple(ip_limit_lines(made, listener))
    if not counted or not listener.auth.clients or not listener.auth.required:
        return
    yield Location(
        Syntax("@lb-unauthorized"), access=counted, headers=frame.headers, dispatch=Syntax("@lb-no-key")
    )
    yield answer_location("@lb-no-key", ANSWERS["unauthorized"], frame.headers)


def _header_buffers(octets: int) -> Iterator[Syntax]:
    # Whatever fits into one buffer fits into two, however its lines fall. The room is for the line itself.
    yield Syntax(f"large_client_header_buffers 2 {-(-octets // 1024) + _LINE_KIB}k")


def _timeouts(timeouts: ClientTimeouts) -> Iterator[Syntax]:
    """Yield the client's timers where they are not NGINX's own."""
    for name, milliseconds, default in (
        ("keepalive_timeout", timeouts.keepalive, 75_000),
        ("client_header_timeout", timeouts.header, 60_000),
        ("client_body_timeout", timeouts.body, 60_000),
    ):
        if milliseconds != default:
            yield Syntax(f"{name} {duration(milliseconds)}")


def _common_settings(made: Assembly, listener: Listener, client: Syntax) -> Iterator[Syntax]:
    # Once more for the server: locations without headers of their own inherit it.
    hsts = (f"add_header {HSTS.name} {HSTS.value} always",) if listener.tls and listener.tls.hsts else ()
    lines = (
        *([] if made.whole else [access_log(made.fleet.logs)]),
        # For the log, also where a request fails before it is routed.
        *([f"set $lb_listener {listener.name}"] if logged_listener(made) != listener.name else []),
        *([f"set $lb_client {client}"] if made.fleet.clients else []),
        "uninitialized_variable_warn off",
        # An error inside an answer to an error is answered too.
        "recursive_error_pages on",
        "reset_timedout_connection on",
        *(("limit_req_status 429", "limit_conn_status 429") if any(limit_lines(made, listener)) else ()),
    )
    return map(Syntax, (*lines, *hsts))


def _response_headers(made: Assembly, listener: Listener) -> Iterator[Pair]:
    yield Pair(Syntax("X-Request-Id"), Syntax("$lb_request_id"))
    if listener.explain and decides(made):
        yield Pair(Syntax("X-LB-Decision"), Syntax("$lb_decision"))
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
        headers = tuple(forwarding.request_headers(made, listener))
        yield Location(match, pool=quote(pool.name), proxy=proxy(made, pool, Manner(headers)))


def _redirects(made: Assembly, listener: Listener) -> Iterator[Site]:
    if not listener.redirect_from:
        return
    port = next((bind.port for bind in listener.binds), 443)
    suffix = "" if port == 443 else f":{port}"
    # 308: a POST stays a POST.
    answer = Answer(308, Syntax(f"https://$host{suffix}$request_uri"), Syntax("text/plain"))
    yield _bare(
        made,
        listener._replace(tls=None),
        tuple(line for bind in listener.redirect_from for line in listen_lines(bind)),
        (*_acme(made, listener), Location(Syntax("/"), answer=answer)),
    )._replace(names=tuple(map(quote, listener.hosts)))


def _unclaimed(made: Assembly, sharing: tuple[Listener, ...], lines: tuple[Syntax, ...]) -> Site:
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
        buffer=size(_BODY_BUFFER),
        settings=(
            *_common_settings(made, open_to_all, Syntax('""')),
            *_header_buffers(listener.header_size),
            *_timeouts(listener.timeouts),
        ),
        routes=routes,
        probes=(),
        errors=error_pages(occasions),
        answers=tuple(error_locations(made, occasions, ())),
    )
