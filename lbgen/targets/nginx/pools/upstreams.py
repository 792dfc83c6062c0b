"""Pools as `upstream` blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.model import State, StrategyChoice
from lbgen.targets.nginx.features import has
from lbgen.targets.nginx.language.names import serving
from lbgen.targets.nginx.language.words import duration
from lbgen.targets.nginx.pools.affinity import route_of
from lbgen.targets.nginx.pools.proxying import retries_statuses
from lbgen.targets.nginx.pools.sessions import keeps_drained
from lbgen.targets.nginx.pools.strategies import method, sticky
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from lbgen.model import Fleet, Keepalive, Pool, Server, TargetSettings
    from lbgen.targets.nginx.assembly import Assembly

_ZONE_FLOOR = 65_536
_ZONE_PER_SERVER = 2_048
"""Seen: 64k hold 63 servers on 1.22.1, about 1 KiB each; twice that, for names with several addresses."""


class ServerLine(NamedTuple):
    """One `server` of an upstream."""

    address: Syntax
    parameters: Syntax


class KeepaliveView(NamedTuple):
    """How many idle connections a worker keeps, and how long."""

    idle: int
    timeout: Syntax
    requests: int


class Upstream(NamedTuple):
    """One `upstream` block, in the order in which NGINX wants its lines."""

    name: Syntax
    pool: str
    """The name in the fleet, for a comment."""
    zone_kib: int
    method: Syntax
    sticky: Syntax
    """By what requests are bound to servers beside the method; empty: by nothing."""
    servers: tuple[ServerLine, ...]
    resolver: Syntax
    keepalive: KeepaliveView | None
    keepalive_off: bool
    """True: the version keeps connections by default, and the fleet does not want it."""


def upstreams(made: Assembly) -> tuple[Upstream, ...]:
    """Return a block for each pool that has servers; NGINX refuses an upstream without any."""
    pools = (pool for pool in made.fleet.pools if pool.has_servers)
    return tuple(_upstream(made, pool, made.upstreams[pool.name]) for pool in pools)


def probe_upstreams(made: Assembly) -> tuple[Upstream, ...]:
    """Return the upstream blocks of `probe_names`."""
    return tuple(
        _upstream(made, _uncapped(made.fleet.pool(pool)), name) for pool, name in made.probe_upstreams.items()
    )


def _uncapped(pool: Pool) -> Pool:
    servers = tuple(server._replace(max_in_flight=None) for server in pool.servers)
    return pool._replace(
        servers=servers, max_in_flight=None, strategy=StrategyChoice("round_robin"), keepalive=None
    )


def follows_dns(pool: Pool, settings: TargetSettings) -> bool:
    """Tell whether this pool's names are looked up again and again while NGINX runs."""
    return pool.dns.mode == "runtime" and has(settings.version, "resolve")


def _upstream(made: Assembly, pool: Pool, name: Syntax) -> Upstream:
    settings = made.settings
    lines = _server_lines(made.fleet, pool, settings)
    entries = pool.discover.max if pool.discover and pool.discover.dns else len(lines)
    return Upstream(
        name=name,
        pool=pool.name,
        zone_kib=zone_kib(entries),
        method=method(made, pool),
        sticky=sticky(made, pool, name),
        servers=lines,
        resolver=_resolver(pool) if follows_dns(pool, settings) else Syntax(""),
        keepalive=_keepalive(pool.keepalive),
        keepalive_off=pool.keepalive is None and has(settings.version, "keepalive_off"),
    )


def zone_kib(entries: int) -> int:
    """Return the size of the shared memory for this many servers, in KiB, a power of two."""
    size = _ZONE_FLOOR
    while size < entries * _ZONE_PER_SERVER:
        size *= 2
    return size // 1024


def _server_lines(fleet: Fleet, pool: Pool, settings: TargetSettings) -> tuple[ServerLine, ...]:
    resolve = follows_dns(pool, settings)
    if pool.discover and pool.discover.dns:
        address = Syntax(f"{pool.discover.dns}:{pool.discover.port}")
        words = [*_cap(pool.max_in_flight), *_failures(pool), *(["resolve"] if resolve else [])]
        return (ServerLine(address, Syntax(" ".join(words))),)
    failures = _failures(pool)
    return tuple(_server_line(fleet, pool, server, failures, settings) for server in pool.servers)


def _server_line(
    fleet: Fleet, pool: Pool, server: Server, failures: list[str], settings: TargetSettings
) -> ServerLine:
    words = [] if server.weight in {0, 1} else [f"weight={server.weight}"]
    words += _cap(pool.cap(server))
    words += failures
    if follows_dns(pool, settings) and server.address.is_name:
        words.append("resolve")
    if server.backup:
        words.append("backup")
    route = route_of(fleet, pool, server, settings)
    if route:
        words.append(f"route={route}")
    # NGINX has no weight 0, and no `drain` for pools without stickiness: `down` lets running requests end.
    if keeps_drained(pool, server, settings):
        words.append("drain")
    elif server.weight == 0 or server.state is not State.UP:
        words.append("down")
    return ServerLine(Syntax(server.address), Syntax(" ".join(words)))


def ejects(pool: Pool) -> bool:
    """Tell whether NGINX takes a server out of rotation after failures: not where that would end the pool.

    It knows one *configured* server as the only one, and not one that is left beside others which are down
    (seen on 1.22.1 to 1.30.6): then it would answer 503 until `fail_timeout` is over.
    """
    alone = len(pool.servers) > 1 and len(serving(pool)) == 1
    return bool(pool.passive_health.failures) and not alone and not retries_statuses(pool.retry)


def _cap(cap: int | None) -> list[str]:
    return [] if cap is None else [f"max_conns={cap}"]


def _failures(pool: Pool) -> list[str]:
    passive = pool.passive_health
    if not ejects(pool):
        return ["max_fails=0"]
    return [f"max_fails={passive.failures}", f"fail_timeout={duration(max(passive.window, 1_000))}"]


def _resolver(pool: Pool) -> Syntax:
    return Syntax(f"{' '.join(pool.dns.resolver)} valid={duration(pool.dns.valid)}")


def _keepalive(keepalive: Keepalive | None) -> KeepaliveView | None:
    if keepalive is None or keepalive.idle == 0:
        return None
    return KeepaliveView(keepalive.idle, duration(keepalive.idle_timeout), keepalive.requests)
