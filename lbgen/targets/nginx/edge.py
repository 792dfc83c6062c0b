"""Listeners as `server` blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.answers import ANSWERS
from lbgen.targets.nginx.errors import PREFIX, answer_location, error_locations, error_pages
from lbgen.targets.nginx.proxying import Manner, proxy, standard_hide
from lbgen.targets.nginx.quoting import quote
from lbgen.targets.nginx.status import status_locations
from lbgen.targets.nginx.upstreams import has_servers
from lbgen.targets.nginx.views import Answer, Location, Pair, Site
from lbgen.targets.nginx.words import size
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener, Route
    from lbgen.targets.nginx.assembly import Assembly
    from lbgen.units import Address

_BODY_BUFFER = 1024**2
"""Prompts over the buffer (16 KB by default) cost about 40 ms of first token (measured on 1.22.1)."""


def sites(made: Assembly, access_log: Syntax) -> tuple[Site, ...]:
    """Return the server blocks of every listener."""
    return tuple(_site(made, listener, access_log) for listener in made.fleet.listeners)


def _site(made: Assembly, listener: Listener, access_log: Syntax) -> Site:
    headers = _response_headers(listener)
    return Site(
        listener=listener.name,
        listens=tuple(listen for bind in listener.binds for listen in _listens(bind)),
        names=tuple(map(quote, listener.hosts)),
        http2=False,
        tls=None,
        max_body=size(listener.max_body),
        buffer=size(max(_BODY_BUFFER, 0)),
        settings=_settings(listener, access_log),
        errors=error_pages(),
        locations=(
            *status_locations(made, listener),
            *(location for route in listener.routes for location in _route(made, listener, route, headers)),
            *error_locations(headers),
            *_probe_answers(),
        ),
        extra=tuple(map(Syntax, made.settings.raw.get("server", ()))),
    )


def _listens(bind: Address) -> Iterator[Syntax]:
    if bind.host == "*":
        yield Syntax(bind.port)
        yield Syntax(f"[::]:{bind.port}")
    else:
        yield Syntax(bind)


def _settings(listener: Listener, access_log: Syntax) -> tuple[Syntax, ...]:
    lines = [
        f"access_log {access_log}",
        # For the log, also where a request fails before it is routed.
        f"set $lb_listener {listener.name}",
        'set $lb_pool ""',
        'set $lb_client ""',
        "uninitialized_variable_warn off",
        # An error inside an answer to an error is answered too.
        "recursive_error_pages on",
        "reset_timedout_connection on",
        # Paths are matched as the servers will see them.
        "merge_slashes off",
    ]
    return tuple(map(Syntax, lines))


def _response_headers(listener: Listener) -> tuple[Pair, ...]:
    headers = [Pair(Syntax("X-Request-Id"), Syntax("$lb_request_id"))]
    if listener.behind_proxy:
        headers.append(Pair(Syntax("X-Accel-Buffering"), Syntax("no")))
    return tuple(headers)


def _route(made: Assembly, listener: Listener, route: Route, headers: tuple[Pair, ...]) -> Iterator[Location]:
    pool = made.fleet.pool(route.pools[0])
    if not has_servers(pool):
        yield answer_location("/", ANSWERS["unavailable"], headers)._replace(pool=quote(pool.name))
        return
    manner = Manner(changes=(route.headers,), timeouts=route.timeouts, hide=standard_hide(listener))
    yield Location(
        Syntax("/"),
        pool=quote(pool.name),
        headers=headers,
        extra=tuple(map(Syntax, made.settings.raw.get("location", ()))),
        proxy=proxy(made, pool, manner),
    )


def _probe_answers() -> Iterator[Location]:
    for name, status in (("yes", 204), ("no", 503)):
        answer = Answer(status, Syntax('""'), Syntax("text/plain"))
        yield Location(Syntax(f"= {PREFIX}{name}"), internal=True, quiet=True, answer=answer)
