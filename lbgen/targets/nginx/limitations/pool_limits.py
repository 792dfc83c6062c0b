"""What NGINX cannot do for a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.strategies.asked import reads_body
from lbgen.strategies.prefix import prefix_of
from lbgen.strategies.session import session_of
from lbgen.targets.nginx.features import FEATURES, has
from lbgen.targets.nginx.pools.affinity import Homes, homes_of
from lbgen.targets.nginx.pools.proxying import read_timeout, retries_statuses
from lbgen.targets.nginx.pools.strategies import refusal
from lbgen.units import format_duration, is_ip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.model import Fleet, Pool
    from lbgen.problems import Path
    from lbgen.targets.verdicts import Verdicts

HAPROXY = "use the HAProxy target"


def _strategy(fleet: Fleet, verdicts: Verdicts) -> None:
    settings = fleet.target("nginx")
    for pool in fleet.pools:
        refused = refusal(pool, settings)
        if refused:
            verdicts.refused("strategy", (*pool.path, "strategy"), refused.reason, refused.instead)
        elif prefix_of(pool) and homes_of(fleet, pool, settings) is not Homes.SCRIPT:
            _bounds(fleet, verdicts, pool)


def _bounds(fleet: Fleet, verdicts: Verdicts, pool: Pool) -> None:
    """Name what bounds no load where no script counts it."""
    written = [key for key in ("load_factor", "slack") if _written(fleet, pool, "strategy", key)]
    for key in written:
        reason = "has no effect: without njs a home keeps its requests until it is at max_in_flight"
        hint = f"declare modules: [njs] (NGINX {FEATURES['njs_counts'].since}), or {HAPROXY}"
        verdicts.degraded(f"strategy.{key}", (*pool.path, "strategy", key), reason, hint)
    if not written and not has(fleet.target("nginx").version, "sticky") and not pool.capped:
        reason = "does not limit a server's load: before NGINX 1.29.6 a hot prefix stays where its hash is"
        verdicts.degraded("strategy", (*pool.path, "strategy"), reason, f"write max_in_flight; or {HAPROXY}")


def _promises(fleet: Fleet, verdicts: Verdicts) -> None:
    """Name what a session's promise does not cover."""
    settings = fleet.target("nginx")
    for pool in fleet.pools:
        by = session_of(pool)
        if by is None or not by.strict or refusal(pool, settings):
            continue
        key = next(key for key in ("learn", "insert", "strict") if getattr(by, key))
        path = (*pool.path, "strategy", key)
        if pool.capped:
            reason = "cannot be kept with max_in_flight: a full server's request goes to another, or gets 503"
            verdicts.refused(f"strategy.{key}", path, reason, f"remove max_in_flight; or {HAPROXY}")
        elif not has(settings.version, "sticky"):
            since = FEATURES["sticky"].since
            reason = f"ends for some sessions when servers are added: before NGINX {since} it is a hash"
            verdicts.degraded(f"strategy.{key}", path, reason, HAPROXY)


def _protection(fleet: Fleet, verdicts: Verdicts) -> None:
    """Name what open-source NGINX lacks to protect servers."""
    for pool in fleet.pools:
        if pool.health and _written(fleet, pool, "health"):
            reason = "is not checked: open-source NGINX has no active checks, only passive_health"
            verdicts.degraded("health", (*pool.path, "health"), reason, HAPROXY)
        if pool.warmup and _written(fleet, pool, "warmup"):
            reason = "has no effect: open-source NGINX has no slow start"
            verdicts.degraded("warmup", (*pool.path, "warmup"), reason, HAPROXY)
        _cap(pool, verdicts)
        _queue(fleet, pool, verdicts)
        _passive(fleet, pool, verdicts)
        _retries(fleet, pool, verdicts)


def _queue(fleet: Fleet, pool: Pool, verdicts: Verdicts) -> None:
    path = (*pool.path, "queue")
    if pool.queue.order != "fifo":
        verdicts.refused("queue.order", (*path, "order"), "needs a queue, and NGINX has none", HAPROXY)
    elif any(_written(fleet, pool, "queue", key) for key in ("size", "timeout")):
        reason = "has no effect: NGINX has no queue; if every server is full, a request gets 503 immediately"
        verdicts.degraded("queue", path, reason, HAPROXY)


def _cap(pool: Pool, verdicts: Verdicts) -> None:
    holder = pool if pool.max_in_flight else next((one for one in pool.servers if one.max_in_flight), None)
    if holder:
        reason = "works without a queue: if every server is full, a request gets 503 immediately"
        verdicts.degraded("max_in_flight", (*holder.path, "max_in_flight"), reason, HAPROXY)


def _passive(fleet: Fleet, pool: Pool, verdicts: Verdicts) -> None:
    passive = pool.passive_health
    path = (*pool.path, "passive_health")
    if (
        passive.failures
        and passive.eject != passive.window
        and _written(fleet, pool, "passive_health", "eject")
    ):
        reason = (
            "is also the window on NGINX: fail_timeout is the time in which failures count and the time "
            "for which the server is out"
        )
        verdicts.degraded("passive_health.eject", (*path, "eject"), reason, "write the same time for both")


def _retries(fleet: Fleet, pool: Pool, verdicts: Verdicts) -> None:
    path = (*pool.path, "retry")
    retry = pool.retry
    if retries_statuses(retry) and pool.passive_health.failures:
        reason = "ejects no server: NGINX would count the answers that retry.on retries as failures"
        verdicts.degraded("passive_health", (*path, "on"), reason, f"retry on connect alone; or {HAPROXY}")
    if retry.replay_posts and "reset" not in retry.on and set(retry.on) - {"connect"}:
        reason = "also replays a POST after a reset connection: NGINX does not distinguish them"
        verdicts.degraded("retry.replay_posts", (*path, "replay_posts"), reason, "add reset to retry.on")
    if retry.attempts and retry.on and "connect" not in retry.on and _written(fleet, pool, "retry", "on"):
        reason = "also retries refused connections: NGINX does not distinguish them"
        verdicts.degraded("retry.on", (*path, "on"), reason, "add connect to retry.on")


def _timers(fleet: Fleet, verdicts: Verdicts) -> None:
    for pool in fleet.pools:
        waits = pool.timeouts
        written = [key for key in ("first_byte", "idle") if _written(fleet, pool, "timeouts", key)]
        for key in written:
            if getattr(waits, key) < read_timeout(waits):
                larger = format_duration(read_timeout(waits))
                reason = f"becomes {larger}: one timer serves first_byte and idle, the larger of the two"
                path = (*pool.path, "timeouts", key)
                verdicts.degraded(f"timeouts.{key}", path, reason, "write the same time for both")


def _names(fleet: Fleet, verdicts: Verdicts) -> None:
    settings = fleet.target("nginx")
    for pool in fleet.pools:
        if pool.dns.mode != "runtime":
            continue
        path = (*pool.path, "dns") if pool.discover is None else (*pool.path, "discover")
        if not has(settings.version, "resolve"):
            needed = FEATURES["resolve"]
            reason = f"'runtime' needs NGINX {needed.since}, which looks names up while it runs"
            verdicts.refused("dns.mode", path, reason, needed.instead)
        elif not pool.dns.resolver:
            reason = "is missing: NGINX does not use /etc/resolv.conf for names resolved at run time"
            verdicts.refused("dns.resolver", path, reason, 'write it, as in resolver: ["10.0.0.10:53"]')


def _identity(fleet: Fleet, verdicts: Verdicts) -> None:
    """Find pools whose servers would need names of their own, of which NGINX has one a pool."""
    for pool in fleet.pools:
        hosts = {server.address.host for server in pool.servers}
        if pool.host_header == "backend" and len(hosts) > 1:
            reason = "'backend' is one name for all servers of a pool on NGINX, and these have several hosts"
            verdicts.refused("host_header", (*pool.path, "host_header"), reason, "write the name itself")
        if pool.tls is None or pool.tls.server_name:
            continue
        if len(hosts) > 1:
            reason = "is missing: NGINX sends one name to all servers of a pool, and these have several"
        elif pool.tls.verify and any(is_ip(host) for host in hosts):
            reason = "is missing: NGINX compares certificates with names, not with addresses"
        else:
            continue
        verdicts.refused(
            "tls.server_name", (*pool.path, "tls"), reason, "write the name that the certificate has"
        )


def _protocols(fleet: Fleet, verdicts: Verdicts) -> None:
    settings = fleet.target("nginx")
    for pool in fleet.pools:
        if pool.protocol == "h2c" and not has(settings.version, "http2_upstream"):
            needed = FEATURES["http2_upstream"]
            reason = f"'h2c' needs NGINX {needed.since}, which speaks HTTP/2 to servers"
            verdicts.refused("protocol", (*pool.path, "protocol"), reason, needed.instead)


def _dollars(fleet: Fleet, verdicts: Verdicts) -> None:
    """Find text that stands where NGINX replaces variables, and cannot be put into one."""
    for pool in fleet.pools:
        for path, text in _texts(pool):
            if "$" in text:
                reason = "contains a dollar sign, which NGINX treats as a variable there"
                verdicts.refused(str(path[-1]), path, reason, "write it without")


def _texts(pool: Pool) -> Iterator[tuple[Path, str]]:
    if pool.health and pool.health.path:
        yield (*pool.path, "health", "path"), pool.health.path
    for key in ("ca", "server_name", "certificate", "key"):
        value = getattr(pool.tls, key, None)
        if value:
            yield (*pool.path, "tls", key), value


def _written(fleet: Fleet, pool: Pool, *keys: str) -> bool:
    return fleet.origins.written((*pool.path, *keys))


def _buffering(fleet: Fleet, verdicts: Verdicts) -> None:
    for pool in fleet.pools:
        path = (*pool.path, "request_buffering")
        if pool.request_buffering and pool.protocol == "grpc":
            reason = "has no effect: NGINX passes a gRPC stream on as it arrives"
            verdicts.degraded("request_buffering", path, reason)
        if pool.request_buffering is not False or pool.protocol == "grpc":
            continue
        if reads_body(pool):
            reason = "cannot be false: the strategy chooses a server by the body"
            instead = f"a separate pool for uploads, with another strategy; or {HAPROXY}"
            verdicts.refused("request_buffering", path, reason, instead)
        elif _read_by_route(fleet, pool):
            reason = "has no effect where routes read bodies: NGINX has read all of it by then"
            verdicts.degraded("request_buffering", path, reason, "routes by path for uploads")


def _read_by_route(fleet: Fleet, pool: Pool) -> bool:
    routes = (route for listener in fleet.listeners for route in listener.routes)
    return any(route.match.reads_body for route in routes if pool.name in route.pools)


RULES: tuple[Callable[[Fleet, Verdicts], None], ...] = (
    _strategy,
    _promises,
    _protection,
    _timers,
    _names,
    _identity,
    _protocols,
    _dollars,
    _buffering,
)
