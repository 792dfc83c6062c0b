"""The balancer's own probes: live and ready.

NGINX checks no server actively, so `ready` asks one when it is asked: it sends a GET to the pool's health
path (or `/`, where any answer will do) and is ready when a server of the pool answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.model import Headers
from lbgen.targets.common.answers import OK_BODY, live_body
from lbgen.targets.nginx.errors import PREFIX
from lbgen.targets.nginx.language.quoting import quote, quote_plain
from lbgen.targets.nginx.pools.proxying import Manner, proxy
from lbgen.targets.nginx.views import Answer, Location
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.model import Fleet, HeaderValue, Listener, Pool
    from lbgen.targets.nginx.assembly import Assembly
    from lbgen.targets.nginx.views import Pair, Proxy

_OK = Answer(200, quote(OK_BODY))
_YES = "@lb-ready-yes"
_NO = "@lb-unreached"
_ANY_ANSWER = Syntax("400 401 403 404 405 406 415 422 426 501")
"""What a living server may say to `GET /`."""


def status_locations(made: Assembly, listener: Listener) -> Iterator[Location]:
    """Yield the locations of the listener's probes."""
    if listener.status.live:
        yield live_location(made.fleet, listener.status.live)
    if listener.status.ready:
        yield from ready_locations(
            made, listener.status.ready, made.fleet.pools_of(listener), listener.status.when
        )


def live_location(fleet: Fleet, path: str) -> Location:
    """Return the location that says that NGINX runs, and with what."""
    body = quote(live_body(fleet.digest))
    return Location(Syntax(f"= {quote_plain(path)}"), answer=_OK._replace(body=body))


def ready_locations(made: Assembly, path: str, pools: tuple[Pool, ...], when: str) -> Iterator[Location]:
    """Yield a chain of locations, each of which asks one pool; `when` says how they are combined."""
    usable = tuple(pool for pool in pools if pool.has_servers)
    if not usable or (when == "all_pools" and not all(pool.has_servers for pool in pools)):
        yield Location(Syntax(f"= {quote_plain(path)}"), answer=Answer(503))
        return
    for number, pool in enumerate(usable):
        match = f"= {quote_plain(path)}" if number == 0 else f"@lb-ready-{number}"
        following = f"@lb-ready-{number + 1}" if number + 1 < len(usable) else ""
        yield _asking(match, made.upstreams[pool.name], following, when)
    yield Location(Syntax(_YES), answer=_OK)
    for pool in usable:
        yield from _probes(made, pool)


def _asking(match: str, name: str, following: str, when: str) -> Location:
    if when == "all_pools":
        on_yes, on_no = following or _YES, _NO
    else:
        on_yes, on_no = _YES, following or _NO
    return Location(
        Syntax(match),
        access=(Syntax(f"auth_request {PREFIX}probe/{name}"),),
        errors=(Syntax(f"error_page 401 403 500 = {on_no}"),),
        dispatch=Syntax(on_yes),
    )


def _probes(made: Assembly, pool: Pool) -> Iterator[Location]:
    """Yield the internal location that asks one pool, within the time of an active check."""
    grpc = pool.protocol == "grpc"
    name = made.upstreams[pool.name]
    health = pool.health
    # A path of another port means nothing to the port that NGINX knows.
    path = health.path if health and health.port is None and not grpc else None
    timeout = pool.health.timeout if pool.health else 5_000
    quick = pool.timeouts._replace(connect=min(timeout, 1_000), first_byte=timeout, idle=timeout)
    prober = pool._replace(
        timeouts=quick,
        host_header="client",
        retry=pool.retry._replace(attempts=9, on=("connect",), within=timeout, replay_posts=False),
    )
    # With no cap of its own: a pool whose servers are all busy is ready, though NGINX counts it as gone.
    upstream = made.probe_upstreams.get(pool.name, name)
    headers = (("Host", "localhost"), ("Content-Length", '""'))
    changes = (Headers(set=health.headers),) if health else ()
    manner = Manner(headers=headers, changes=changes, path="" if grpc else path or "/", upstream=upstream)
    # As many servers as can be asked within the time.
    way = proxy(made, prober, manner)._replace(tries=0)
    if not grpc:
        way = way._replace(headers=tuple(_own_headers(way, prober, health.headers if health else {})))
    alone = ("proxy_pass_request_headers off", "proxy_pass_request_body off")
    location = Location(
        Syntax(f"= {PREFIX}probe/{name}"),
        internal=True,
        proxy=way,
        access=() if grpc else tuple(map(Syntax, alone)),
    )
    if path and health and 200 <= health.expect < 300:
        yield location
        return
    alive = Syntax(f"error_page {health.expect if path and health else _ANY_ANSWER} = {_YES}")
    intercept = Syntax(f"{way.words}_intercept_errors on")
    yield location._replace(errors=(alive,), access=(*location.access, intercept))


def _own_headers(way: Proxy, pool: Pool, more: Mapping[str, HeaderValue]) -> Iterator[Pair]:
    """Yield the headers that a probe has: nothing is told of the client, which is none."""
    kept = {"host", "content-length", *map(str.lower, (*pool.headers.set, *more))}
    yield from (pair for pair in way.headers if pair.name.lower() in kept)
