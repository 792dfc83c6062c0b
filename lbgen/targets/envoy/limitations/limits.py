"""What Envoy cannot do for a fleet: the rows of `support`, found in what is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.strategies.prefix import prefix_of
from lbgen.strategies.session import session_of
from lbgen.targets.common.listeners import groups
from lbgen.targets.envoy.limitations.support import LIMITS, OPEN, understood
from lbgen.targets.envoy.pools.strategies import hash_policies, hashes, inserts, refusal
from lbgen.targets.verdicts import Verdicts
from lbgen.vocabulary import Support

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lbgen.model import Fleet, Listener, Metrics, Pool
    from lbgen.problems import Path, Problem
    from lbgen.targets.envoy.limitations.support import Limit


def limits(fleet: Fleet) -> Iterator[Problem]:
    """Yield degraded (warning) and refused (error) keys that the fleet uses."""
    said = Verdicts("Envoy", fleet.target("envoy"))
    for pool in fleet.pools:
        refused = refusal(pool, fleet.target("envoy"))
        if refused:
            said.refused("strategy", (*pool.path, "strategy"), refused.reason, refused.instead)
    written = tuple(_written(fleet.origins.plain()))
    for limit in LIMITS:
        for path in _places(fleet, limit, written):
            say = said.degraded if limit.support is Support.DEGRADED else said.refused
            say(limit.name, path, limit.reason, limit.instead)
    for key, path in written:
        if not understood(key):
            said.refused(key.rpartition("*.")[2], path, "is not supported on Envoy", "NGINX or HAProxy")
    yield from said.problems()


def _places(fleet: Fleet, limit: Limit, written: tuple[tuple[str, Path], ...]) -> Iterator[Path]:
    if limit.when:
        yield from dict.fromkeys(WHEN[limit.when](fleet))
        return
    found = [path for key, path in written if key == limit.key]
    if limit.key == "pools.*.queue":
        # `order` has a row of its own.
        found = [path for key, path in written if key in {f"{limit.key}.size", f"{limit.key}.timeout"}][:1]
    yield from found


def _written(value: object, key: str = "", path: Path = ()) -> Iterator[tuple[str, Path]]:
    """Yield every key that is written, in the table's spelling, and where it stands."""
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _written(inner, f"{key}.*", (*path, index))
    if not isinstance(value, dict) or any(key.endswith(end) for end in OPEN if key):
        return
    named = key in {"pools", "listeners", "clients"}
    for name, inner in value.items():
        if not named and str(name).startswith("x-"):
            continue
        below = f"{key}.*" if named else f"{key}.{name}" if key else str(name)
        if below == "targets":
            continue
        if not named and isinstance(inner, dict) and below.endswith((".servers", ".limits", ".routes")):
            below = f"{below}.*"  # one entry alone, without its list
        yield below, (*path, name)
        yield from _written(inner, below, (*path, name))


def _of(key: str, holds: Callable[[Fleet, Pool], bool]) -> Callable[[Fleet], Iterator[Path]]:
    """Return what finds the pools for which something holds."""
    parts = key.split(".")
    return lambda fleet: ((*pool.path, *parts) for pool in fleet.pools if holds(fleet, pool))


def _is_written(fleet: Fleet, pool: Pool, *keys: str) -> bool:
    return fleet.origins.written((*pool.path, *keys))


def _resets_apart(fleet: Fleet, pool: Pool) -> bool:
    del fleet
    return bool(pool.retry.attempts) and len({"reset", "timeout"} & set(pool.retry.on)) == 1


def _short_idle(fleet: Fleet, pool: Pool) -> bool:
    waits = pool.timeouts
    return _is_written(fleet, pool, "timeouts", "idle") and (waits.idle or 0) < (waits.first_byte or 0)


def _weighted_least(fleet: Fleet) -> Iterator[Path]:
    for pool in fleet.pools:
        served = [server for server in pool.servers if server.weight and not server.backup]
        unlike = [server for server in served if server.weight != served[0].weight]
        if unlike and (pool.strategy.name in {"least_conn", "random_two"} or inserts(pool)):
            heaviest = max(served, key=lambda server: server.weight)
            yield (*heaviest.path, "weight")


def _static_names(fleet: Fleet, pool: Pool) -> bool:
    return pool.dns.mode == "static" and _is_written(fleet, pool, "dns", "mode")


def _mixed_sockets(fleet: Fleet, pool: Pool) -> bool:
    del fleet
    places = [server.address for server in pool.servers]
    return any(place.is_unix for place in places) and any(place.is_name for place in places)


def _named_binds(fleet: Fleet) -> Iterator[Path]:
    doors: list[Listener | Metrics] = [*fleet.listeners, *([fleet.metrics] if fleet.metrics else ())]
    for door in doors:
        if any(bind.is_name and bind.host != "*" for bind in door.binds):
            yield (*door.path, "bind")


def _two_levels(fleet: Fleet, pool: Pool) -> bool:
    del fleet
    by = prefix_of(pool)
    return by is not None and by.key == "auto"


def _scoped(fleet: Fleet, pool: Pool) -> bool:
    del fleet
    by = prefix_of(pool)
    return by is not None and by.scope == "client"


def _strict(fleet: Fleet, pool: Pool) -> bool:
    by = session_of(pool)
    return bool(by and by.strict and not by.insert) and _is_written(fleet, pool, "strategy", "strict")


def _splits(fleet: Fleet) -> Iterator[tuple[Path, list[Pool]]]:
    for listener in fleet.listeners:
        for route in listener.routes:
            if len(route.split) > 1:
                yield (*route.path, "split"), [fleet.pool(name) for name in route.split]


def _splits_apart(fleet: Fleet) -> Iterator[Path]:
    settings = fleet.target("envoy")
    for path, pools in _splits(fleet):
        keyed = [pool for pool in pools if hashes(pool, settings)]
        by = [list(hash_policies(pool)) for pool in keyed]
        if any(one != by[0] for one in by) or len({pool.host_header for pool in pools}) > 1:
            yield path


def _hashes_twice(fleet: Fleet) -> Iterator[Path]:
    settings = fleet.target("envoy")
    for listener in fleet.listeners:
        for route in listener.routes:
            keyed = any(hashes(fleet.pool(name), settings) for name in route.split)
            if len(route.split) > 1 and route.split_by != "request" and keyed:
                yield (*route.path, "by")


def _trust_apart(fleet: Fleet) -> Iterator[Path]:
    for sharing, _ in groups(fleet.listeners):
        plain = [listener for listener in sharing if not listener.tls]
        for listener in plain:
            if listener.trusted_proxies != plain[0].trusted_proxies:
                yield (*listener.path, "trusted_proxies")


def _unread_ports(fleet: Fleet) -> Iterator[Path]:
    """Yield listeners behind proxies for whom the client's address decides."""
    for one in fleet.listeners:
        decides = (
            one.allow or one.deny or one.auth.except_from or any(limit.per == "ip" for limit in one.limits)
        )
        if one.trusted_proxies and not one.accept_proxy and decides:
            yield (*one.path, "trusted_proxies")


def _priorities(fleet: Fleet) -> Iterator[Path]:
    return ((*client.path, "priority") for client in fleet.clients if client.priority)


def _several_doors(fleet: Fleet) -> Iterator[Path]:
    for client in fleet.clients:
        doors = [one for one in fleet.listeners if client.name in one.auth.clients]
        if client.rate and len(doors) > 1:
            yield (*client.path, "rate")


def _taken_over(fleet: Fleet) -> Iterator[Path]:
    """Yield clients that may use one of two pools, of which one takes over for the other."""
    for client in fleet.clients:
        for listener in fleet.listeners:
            routes = listener.routes if client.name in listener.auth.clients else ()
            pairs = [{name, route.when_down} for route in routes for name in route.pools if route.when_down]
            if any(len(pair) == 2 and len(pair & set(client.pools)) == 1 for pair in pairs):
                yield (*client.path, "pools")


def _read_forms(fleet: Fleet) -> Iterator[Path]:
    for listener in fleet.listeners:
        if any(route.match.form for route in listener.routes):
            yield (*listener.path, "inspect", "body")


def _syslog(fleet: Fleet) -> Iterator[Path]:
    return iter([("logs", "to")] if fleet.logs.to.startswith("syslog:") else [])


def _logged_bodies(fleet: Fleet) -> Iterator[Path]:
    deciding = [any(route.match.reads_body for route in one.routes) for one in fleet.listeners]
    if fleet.logs.asks("model", "max_tokens") and not all(deciding):
        yield ("logs", "fields")


WHEN: Mapping[str, Callable[[Fleet], Iterator[Path]]] = {
    "never": lambda _fleet: iter(()),  # what `refusal` says of a strategy
    "shortest_first": _of("queue.order", lambda _fleet, pool: pool.queue.order != "fifo"),
    "warmed_hashes": _of(
        "warmup", lambda fleet, pool: bool(pool.warmup) and hashes(pool, fleet.target("envoy"))
    ),
    "resets_apart": _of("retry.on", _resets_apart),
    "replayed": _of("retry.replay_posts", lambda _, pool: pool.retry.replay_posts and pool.retry.repeats),
    "short_idle": _of("timeouts.idle", _short_idle),
    "static_names": _of("dns.mode", _static_names),
    "mixed_sockets": _of("servers", _mixed_sockets),
    "named_binds": _named_binds,
    "weighted_least": _weighted_least,
    "two_levels": _of("strategy", _two_levels),
    "scoped": _of("strategy.scope", _scoped),
    "strict": _of("strategy.strict", _strict),
    "splits_apart": _splits_apart,
    "hashes_twice": _hashes_twice,
    "trust_apart": _trust_apart,
    "unread_ports": _unread_ports,
    "priorities": _priorities,
    "several_doors": _several_doors,
    "taken_over": _taken_over,
    "read_forms": _read_forms,
    "syslog": _syslog,
    "logged_bodies": _logged_bodies,
    "asked_headers": lambda fleet: (
        (*one.path, "cors") for one in fleet.listeners if one.cors.origins and not one.cors.headers
    ),
    "buffered": _of("request_buffering", lambda _fleet, pool: bool(pool.request_buffering)),
}
"""By the names that rows have: where each of them holds."""
