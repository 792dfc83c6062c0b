"""What HAProxy of a version cannot do for a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.listeners import groups
from lbgen.targets.haproxy.features import FEATURES, has
from lbgen.targets.haproxy.guards.admission import BUILT_IN_COUNTERS, bounds
from lbgen.targets.haproxy.inspection.buffers import REWRITE, buffer_size
from lbgen.targets.haproxy.listeners.binds import differ_in_tls
from lbgen.targets.haproxy.pools.strategies import refusal
from lbgen.targets.verdicts import Verdicts
from lbgen.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Listener, Pool, Route
    from lbgen.problems import Problem
    from lbgen.vocabulary import Version


def limits(fleet: Fleet) -> Iterator[Problem]:
    """Yield degraded (warning) and refused (error) keys that the fleet uses."""
    settings = fleet.target("haproxy")
    said = Verdicts("HAProxy", settings)
    for pool in fleet.pools:
        _pool(said, fleet, pool)
    for listener in fleet.listeners:
        _listener(said, fleet, listener)
    _counters(said, fleet)
    _process(said, fleet)
    yield from said.problems()


def _pool(said: Verdicts, fleet: Fleet, pool: Pool) -> None:
    settings = fleet.target("haproxy")
    refused = refusal(pool, settings)
    if refused:
        said.refused("strategy", (*pool.path, "strategy"), refused.reason, refused.instead)
    _retry(said, fleet, pool, settings.version)
    _replay(said, fleet, pool)
    _health(said, fleet, pool)
    if fleet.origins.written((*pool.path, "timeouts", "send")):
        said.degraded(
            "send",
            (*pool.path, "timeouts", "send"),
            "has no separate effect: HAProxy uses one timer, 'idle', for both directions",
        )
    if pool.request_buffering:
        said.degraded(
            "request_buffering",
            (*pool.path, "request_buffering"),
            f"holds for {_buffered_kib(fleet)} KiB: HAProxy hands on the rest of a body while it comes",
        )
    addresses = {str(server.address) for server in pool.servers}
    if pool.host_header == "backend" and len(addresses) > 1:
        said.refused(
            "host_header",
            (*pool.path, "host_header"),
            "cannot be 'backend' if servers have different host names: Host is set before a server is chosen",
            "write the name that all servers answer to",
        )


def _retry(said: Verdicts, fleet: Fleet, pool: Pool, version: Version) -> None:
    if pool.retry.within is not None and fleet.origins.written((*pool.path, "retry", "within")):
        said.degraded(
            "within",
            (*pool.path, "retry", "within"),
            "does not limit the retries: only their number and timeouts.connect do",
            "retry.attempts: 1 and a short timeouts.connect",
        )
    if "429" in pool.retry.on and not has(version, "retry_on_429"):
        instead = FEATURES["retry_on_429"].instead
        path = (*pool.path, "retry", "on")
        said.degraded(
            "on", path, "cannot contain 429 before HAProxy 3.0: it is passed to the client", instead
        )


def _replay(said: Verdicts, fleet: Fleet, pool: Pool) -> None:
    if not pool.retry.repeats or not pool.retry.replay_posts:
        return
    # Seen on 2.6 to 3.2: what does not fit the buffer is gone once it was sent.
    said.degraded(
        "retry.replay_posts",
        (*pool.path, "retry", "replay_posts"),
        f"covers requests of less than {_buffered_kib(fleet)} KiB: HAProxy sends again what its buffer "
        "holds, nothing larger",
    )


def _buffered_kib(fleet: Fleet) -> int:
    return (buffer_size(fleet) - REWRITE) // 1024


def _health(said: Verdicts, fleet: Fleet, pool: Pool) -> None:
    if pool.warmup and pool.health is None:
        said.degraded(
            "warmup",
            (*pool.path, "warmup"),
            "has no effect without 'health', by which HAProxy learns that a server is back",
            "health: tcp",
        )
    path = (*pool.path, "passive_health")
    if not pool.passive_health.failures or not fleet.origins.written(path):
        return
    if pool.health is None:
        said.degraded("passive_health", path, "needs 'health', which brings a server back", "health: tcp")
    elif fleet.origins.written((*path, "window")) or fleet.origins.written((*path, "eject")):
        said.degraded(
            "passive_health",
            path,
            "counts failed connections in a row, without 'window', and 'health' ends it instead of 'eject'",
            "passive_health: {failures: 3}",
        )


def _listener(said: Verdicts, fleet: Fleet, listener: Listener) -> None:
    if fleet.origins.written((*listener.path, "max_body")):
        said.degraded(
            "max_body",
            (*listener.path, "max_body"),
            "applies to requests with a Content-Length; a chunked body of any size passes",
        )
    _timeouts(said, fleet, listener)
    if listener.auth.external is not None:
        said.refused(
            "external",
            (*listener.path, "auth", "external"),
            "is not supported: HAProxy cannot ask another service without Lua",
            "auth: {clients: all}, or the NGINX target",
        )
    if listener.acme is not None and listener.acme.webroot:
        path = (*listener.path, "acme", "webroot")
        said.refused("webroot", path, "is not supported: HAProxy does not serve files", "acme: {pool: NAME}")
    if listener.tls and listener.tls.directory and _shares_tls(fleet, listener):
        said.refused(
            "directory",
            (*listener.path, "tls", "directory"),
            "cannot be distinguished from other listeners on its address, whose TLS differs",
            "write 'bundle', or 'certificate' and 'key'",
        )
    for route in listener.routes:
        _route(said, fleet, route)


def _timeouts(said: Verdicts, fleet: Fleet, listener: Listener) -> None:
    path = (*listener.path, "timeouts")
    if fleet.origins.written((*path, "body")):
        reason = "limits only bodies that are inspected; other bodies may pause as long as answers may"
        said.degraded("timeouts.body", (*path, "body"), reason)
    sharing = [other for others, _ in groups(fleet.listeners) if listener in others for other in others]
    for key in ("keepalive", "header"):
        own, longest = getattr(listener.timeouts, key), max(getattr(one.timeouts, key) for one in sharing)
        if own < longest:
            reason = f"is {format_duration(longest)} here, the longest of those that share the address"
            said.degraded(f"timeouts.{key}", (*path, key), reason, "write the same time for all of them")


def _shares_tls(fleet: Fleet, listener: Listener) -> bool:
    return any(differ_in_tls(sharing) for sharing, _ in groups(fleet.listeners) if listener in sharing)


def _route(said: Verdicts, fleet: Fleet, route: Route) -> None:
    connect = (*route.path, "timeouts", "connect")
    if route.timeouts.connect and fleet.origins.written(connect):
        said.degraded("connect", connect, "applies to the pool, not to a route", "timeouts of the pool")


def _counters(said: Verdicts, fleet: Fleet) -> None:
    settings = fleet.target("haproxy")
    if has(settings.version, "stick_counters"):
        return
    for listener in fleet.listeners:
        needed = max((bound.counter + 1 for bound in bounds(fleet, listener)), default=0)
        if needed > BUILT_IN_COUNTERS:
            said.refused(
                "limits",
                (*listener.path, "limits"),
                f"needs {needed} counters for a request, and HAProxy before 2.8 has {BUILT_IN_COUNTERS}",
                FEATURES["stick_counters"].instead,
            )


def _process(said: Verdicts, fleet: Fleet) -> None:
    if fleet.logs.to != "stdout" and not fleet.logs.to.startswith("syslog:"):
        said.degraded(
            "logs",
            ("logs", "to"),
            "cannot be a file: HAProxy logs to standard output",
            "logs: {to: syslog:ADDRESS}",
        )
