"""What becomes of a request, in plain Python: as the reference says it, with nothing of the targets' code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Ask(NamedTuple):
    """A request."""

    port: int
    host: str
    method: str
    path: str
    headers: Mapping[str, str]


class Outcome(NamedTuple):
    """What a client gets: the status, and which server saw which path; None: the balancer itself answered."""

    status: int
    pool: str | None = None
    path: str | None = None


def outcome(fleet: dict[str, Any], keys: Mapping[str, str], ask: Ask) -> Outcome:
    """Return it; `keys`: the name of the client by its key."""
    listener = _listener(fleet, ask)
    if listener is None:
        return Outcome(404)
    client = None
    if listener["auth"] != "none":
        client = _client(listener, keys, ask)
        if client is None:
            return Outcome(401)
    route = _route(listener, ask)
    if route is None:
        return Outcome(404)
    if "respond" in route:
        return Outcome(route["respond"]["status"])
    allowed = fleet["clients"][client].get("pools") if client else None
    if allowed and route["pool"] not in allowed:
        return Outcome(403)
    return Outcome(200, route["pool"], _rewritten(route, ask.path))


def _listener(fleet: dict[str, Any], ask: Ask) -> dict[str, Any] | None:
    """Return the listener of a port with the best name: its own, then the longest wildcard, then any."""
    found = [
        (rank, one)
        for one in fleet["listeners"].values()
        if int(one["bind"].rpartition(":")[2]) == ask.port
        for rank in _host_ranks(one.get("hosts"), ask.host)
    ]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _host_ranks(hosts: list[str] | None, host: str) -> Iterator[tuple[int, int]]:
    if not hosts:
        yield 0, 0
    for name in hosts or ():
        if name == host.lower():
            yield 2, 0
        elif name.startswith("*.") and host.lower().endswith(name[1:]):
            yield 1, len(name)


def _client(listener: dict[str, Any], keys: Mapping[str, str], ask: Ask) -> str | None:
    """Return who asks: by Authorization, or else by X-Api-Key."""
    given = ask.headers.get("Authorization", "").removeprefix("Bearer ") or ask.headers.get("X-Api-Key", "")
    name = keys.get(given)
    wanted = listener["auth"]["clients"]
    return name if name and (wanted == "all" or name in wanted) else None


def _route(listener: dict[str, Any], ask: Ask) -> dict[str, Any] | None:
    fitting = [
        ((*path, -_conditions(route), number), route)
        for number, route in enumerate(listener["routes"])
        if (path := _path_rank(route, ask.path)) is not None and _fits(route, ask)
    ]
    return min(fitting, key=lambda pair: pair[0])[1] if fitting else None


def _path_rank(route: dict[str, Any], path: str) -> tuple[bool, int] | None:
    """An exact path goes before a prefix, and a longer prefix before a shorter one."""
    if path in route.get("path_exact", ()):
        return False, 0
    prefixes = [one for one in route.get("path", ()) if path == one or path.startswith(f"{one}/")]
    if prefixes:
        return True, -max(map(len, prefixes))
    return None if {"path", "path_exact"} & route.keys() else (True, 0)


def _conditions(route: dict[str, Any]) -> int:
    return sum(name in route for name in ("host", "method")) + len(route.get("header", {}))


def _fits(route: dict[str, Any], ask: Ask) -> bool:
    return (
        ("host" not in route or any(_host_ranks(route["host"], ask.host)))
        and ("method" not in route or ask.method in route["method"])
        and all(ask.headers.get(name) == value for name, value in route.get("header", {}).items())
    )


def _rewritten(route: dict[str, Any], path: str) -> str:
    if route.get("strip_prefix"):
        longest = max((one for one in route["path"] if path == one or path.startswith(f"{one}/")), key=len)
        path = path.removeprefix(longest) or "/"
    return route.get("add_prefix", "") + path
