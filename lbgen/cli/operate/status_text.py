"""What `lbgen status` prints of a balancer: a table for people, a value for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.deploy.runtime.running import UNRESOLVED
from lbgen.deploy.status import NoStatus, RuntimeStatus, WatchedStatus
from lbgen.problems import printable
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.deploy.runtime.running import RunningServer
    from lbgen.deploy.status import CountedStatus, WatchedServer

_UNCHECKED = "has no finished health check since HAProxy started"
_HEAD = ("", "state", "weight", "in flight", "queued", "req/s", "last check")
_WATCHED_HEAD = ("", "state", "weight", "in flight", "requests", "failed", "last check")
_STATES = {"drain": "drained"}


def text_of(status: RuntimeStatus | WatchedStatus | CountedStatus) -> str:
    """Return what people read: what the balancer says cannot steer their terminal."""
    if isinstance(status, RuntimeStatus):
        return printable(_runtime(status))
    return printable(_watched(status) if isinstance(status, WatchedStatus) else _counted(status))


def value_of(status: RuntimeStatus | WatchedStatus | CountedStatus | NoStatus) -> dict[str, Any]:
    """Return the same as JSON's types."""
    if isinstance(status, WatchedStatus):
        return {
            "target": status.target,
            "place": status.place,
            "version": status.version,
            "uptime_s": status.uptime_s,
            "pools": [_watched_pool_value(status, name) for name in status.servers],
            "error": None,
        }
    if isinstance(status, RuntimeStatus):
        return {
            "target": status.target,
            "place": status.place,
            "version": status.version,
            "uptime_s": status.uptime_s,
            "pools": [_pool_value(status, name) for name in status.pools],
            "error": None,
        }
    if isinstance(status, NoStatus):
        return {"target": status.target, "place": status.place, "error": status.error}
    return {**status._asdict(), "error": None}


def _pool_value(status: RuntimeStatus, name: str) -> dict[str, Any]:
    return {
        "name": name,
        **status.pools[name]._asdict(),
        "servers": [_server_value(server) for server in status.of(name)],
        "differences": [
            {"server": one.server, "difference": one.words} for one in status.differences if one.pool == name
        ],
    }


def _server_value(server: RunningServer) -> dict[str, Any]:
    return {
        "name": server.name,
        "address": server.address,
        "state": server.state,
        "held": server.held or None,
        "status": server.status,
        "weight": server.weight,
        "max_in_flight": server.cap,
        "in_flight": server.in_flight,
        "queued": server.queued,
        "rate": server.rate,
        "check": server.check or None,
        "unchecked": server.unchecked,
        "since_s": server.since_s,
    }


def _watched_pool_value(status: WatchedStatus, name: str) -> dict[str, Any]:
    servers = status.servers[name]
    return {
        "name": name,
        "in_flight": sum(server.host.in_flight for server in servers),
        "ejections": status.ejections.get(name, 0),
        "servers": [
            {
                "name": server.name,
                "address": server.host.address,
                "state": server.host.state,
                "backup": server.host.backup,
                "weight": server.host.weight,
                "in_flight": server.host.in_flight,
                "connections": server.host.connections,
                "requests": server.host.requests,
                "failed": server.host.failed,
                "check": server.host.check if server.checked else None,
            }
            for server in servers
        ],
        "differences": [
            {"server": one.server, "difference": one.words} for one in status.differences if one.pool == name
        ],
    }


def _watched(status: WatchedStatus) -> str:
    lines = [_title(status)]
    for name, servers in status.servers.items():
        hosts = [server.host for server in servers]
        sums = (f"{sum(getattr(host, key) for host in hosts)}" for key in ("in_flight", "requests", "failed"))
        ejections = status.ejections.get(name, 0)
        total = (f"pool {name}", "", "", *sums, f"{ejections} ejections" if ejections else "")
        lines += ["", *_table([_WATCHED_HEAD, total, *map(_watched_row, servers)])]
        lines += [f"  {one.server} {one.words}" for one in status.differences if one.pool == name]
    return "\n".join(lines)


def _watched_row(server: WatchedServer) -> tuple[str, ...]:
    host = server.host
    state = _STATES.get(host.state, host.state) + (" (backup)" if host.backup else "")
    counts = (f"{host.weight}", f"{host.in_flight}", f"{host.requests}", f"{host.failed}")
    return (f"  {server.name}", state, *counts, host.check if server.checked else "-")


def _title(status: RuntimeStatus | WatchedStatus) -> str:
    return f"{status.target} {status.version} at {status.place}, running for {_duration(status.uptime_s)}"


def _runtime(status: RuntimeStatus) -> str:
    lines = [_title(status)]
    for name, pool in status.pools.items():
        servers = [server for server in status.of(name) if not server.admin & UNRESOLVED]
        total = (f"pool {name}", "", "", f"{pool.in_flight}", f"{pool.queued}", f"{pool.rate}", "")
        lines += ["", *_table([_HEAD, total, *(_row(server) for server in servers)])]
        lines += [f"  {one.server} {one.words}" for one in status.differences if one.pool == name]
        lines += [f"  {one.name} {_UNCHECKED}" for one in status.unchecked if one.pool == name]
        free = len(status.of(name)) - len(servers)
        if free:
            lines.append(f"  free slots for discovered servers: {free}")
    return "\n".join(lines)


def _row(server: RunningServer) -> tuple[str, ...]:
    # HAProxy's "UP 1/3" has failed checks behind it, or none yet.
    state = {"drain": "drained", "maint": "maintenance", "": server.status.lower()}[server.held]
    cap = f"{server.in_flight}/{server.cap}" if server.cap else f"{server.in_flight}"
    since = "" if server.since_s is None or server.since_s < 0 else f" for {_duration(server.since_s)}"
    check = "none finished" if server.unchecked else server.check or "-"
    row = (state + since, f"{server.weight}", cap, f"{server.queued}", f"{server.rate}", check)
    return (f"  {server.name}", *row)


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        words = [
            word.rjust(width) if 2 <= at <= 5 else word.ljust(width)
            for at, (word, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(words).rstrip()


def _counted(status: CountedStatus) -> str:
    title = TARGETS[status.target].title
    return (
        f"{status.target} at {status.place}: {status.writing - 1} requests in flight, {status.active}"
        f" open connections ({status.reading} sending a request, {status.waiting} idle), {status.requests}"
        f" requests since start\nOpen-source {title} has no counters per server: the access log tells which"
        " server a request went to."
    )


def _duration(seconds: int) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
