"""Listeners as `server` blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.answers import ANSWERS
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
from lbgen.targets.nginx.guards import access, auth, cors, forwarding
from lbgen.targets.nginx.guards.rates import ip_limit_lines, limit_lines
from lbgen.targets.nginx.language.quoting import quote, regex_word
from lbgen.targets.nginx.language.words import size
from lbgen.targets.nginx.listeners.binds import Binds
from lbgen.targets.nginx.listeners.frame import Frame
from lbgen.targets.nginx.listeners.routeless import acme, redirects, unclaimed
from lbgen.targets.nginx.listeners.server_settings import (
    BODY_BUFFER,
    common_settings,
    header_buffers,
    timeouts,
)
from lbgen.targets.nginx.listeners.shared import with_shared
from lbgen.targets.nginx.listeners.status import status_locations
from lbgen.targets.nginx.listeners.tls import HSTS, server_tls
from lbgen.targets.nginx.pools.affinity import decides
from lbgen.targets.nginx.pools.proxying import standard_hide
from lbgen.targets.nginx.routes import conditions
from lbgen.targets.nginx.routes.response_headers import changed
from lbgen.targets.nginx.routes.routing import route_locations
from lbgen.targets.nginx.views import Answer, Check, Location, Pair, Site
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener
    from lbgen.targets.nginx.assembly import Assembly

_READ = Location(Syntax("= /.lbgen/read"), internal=True, answer=Answer(204, Syntax('""')))
"""What the mirror gets for whose sake a body is read."""
_UPLOAD = 32 * 1024**2
"""Bytes of a form that are looked at: OpenAI takes 25 MB of audio, and 16 pictures of an edit have less."""


_FILE_CACHE = ("open_file_cache max=16 inactive=1h", "open_file_cache_valid 1h", "open_file_cache_errors on")
"""For routes by conditions: `try_files` looks for a file that is not there, to go on to a named location."""


def sites(made: Assembly) -> tuple[Site, ...]:
    """Return the server blocks of every listener."""
    binds = Binds(made.fleet, made.settings)
    found = []
    for listener in made.fleet.listeners:
        found.append(_site(made, listener, binds))
        found += redirects(made, listener)
    found += [unclaimed(made, sharing, lines) for sharing, lines in binds.unclaimed()]
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
        buffer=size(max(BODY_BUFFER, listener.inspect_body)),
        settings=(
            *common_settings(made, listener, client),
            *(map(Syntax, _FILE_CACHE) if any(location.dispatch for location in routes) else ()),
            *forwarding.real_address(listener),
            *forwarding.underscores(made),
            *header_buffers(binds.header_size(listener)),
            *timeouts(listener.timeouts._replace(header=binds.header_timeout(listener))),
        ),
        routes=(
            *acme(made, listener),
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
    """Return the check that refuses what others may read in another way than NGINX does, or not at all.

    A path with dot segments may leave its route; with `#` it ends there for NGINX, and is passed on whole.
    Bytes beyond ASCII have no place in one without an escape: HAProxy and Envoy refuse them.
    Two headers that decide are one with a comma to NGINX (from 1.23 on); older ones see the first, and so
    does the server then.
    """
    entries = [
        ("default", "0"),
        (regex_word(r"~*^[^? ]*(?:/|%2f)(?:[.]|%2e){1,2}(?:/|%2f|[? ]|$)|^[^ ]*(?:#|[^ -~])"), "1"),
    ]
    source = "$request_uri"
    if has(made.settings.version, "joined_headers"):
        source = '"$request_uri $http_origin $http_x_api_key"'
        entries.append((regex_word("~^[^ ]* .*, "), "1"))
    why = "Refused: dot segments may escape a route, and some servers end a path at '#'."
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
        *(MODELS if any(match.reads_text for match in matches) else ()),
    )


def _guarded(made: Assembly, listener: Listener) -> bool:
    """Tell whether a pool of the listener has admin paths that are refused."""
    return any(not pool.admin.open for pool in made.fleet.pools_of(listener))


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


def _response_headers(made: Assembly, listener: Listener) -> Iterator[Pair]:
    yield Pair(Syntax("X-Request-Id"), Syntax("$lb_request_id"))
    if listener.explain and decides(made):
        yield Pair(Syntax("X-LB-Decision"), Syntax("$lb_decision"))
    if listener.behind_proxy:
        yield Pair(Syntax("X-Accel-Buffering"), Syntax("no"))
    if listener.tls and listener.tls.hsts:
        yield HSTS
    yield from cors.response_headers(made, listener)
