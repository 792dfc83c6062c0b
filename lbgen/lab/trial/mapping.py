"""The fleet as a trial runs it: other addresses, and all that cannot be had here stood in for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.model import Balancers, StrategyChoice
from lbgen.problems import LbgenError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.model import Fleet, Health, Listener, Pool, Route, TargetSettings
    from lbgen.units import Address

COMPLETIONS = "/v1/completions"


class Way(NamedTuple):
    """How a request gets to the pool."""

    listener: Listener
    path: str
    model: str
    headers: Mapping[str, str]


def with_strategy(fleet: Fleet, pool: Pool, name: str, parameters: Mapping[str, object]) -> Fleet:
    """Return the fleet of one balancer with another strategy for a pool."""
    pools = tuple(
        one._replace(strategy=StrategyChoice(name, parameters))
        if one.name == pool.name and one.strategy.name != name
        else one
        for one in fleet.pools
    )
    return fleet._replace(pools=pools, balancers=Balancers(1, {}))


def readdressed(
    fleet: Fleet, pool: Pool, servers: Mapping[str, Address], listeners: Mapping[Address, Address]
) -> Fleet:
    """Return the fleet with the addresses of one pool's servers, by name, and of listeners mapped."""

    def moved(one: Pool) -> Pool:
        if one.name != pool.name:
            return one
        there = tuple(server._replace(address=servers[server.name]) for server in one.servers)
        return one._replace(servers=there, discover=None, health=_on_server(one))

    def bound(binds: tuple[Address, ...]) -> tuple[Address, ...]:
        return tuple(dict.fromkeys(listeners.get(bind, bind) for bind in binds))

    metrics = fleet.metrics
    return fleet._replace(
        pools=tuple(map(moved, fleet.pools)),
        listeners=tuple(
            one._replace(binds=bound(one.binds), redirect_from=bound(one.redirect_from))
            for one in fleet.listeners
        ),
        metrics=metrics._replace(binds=bound(metrics.binds)) if metrics else None,
    )


def binds_of(fleet: Fleet) -> list[Address]:
    """Return every address that the balancer listens on, each once."""
    found = [bind for one in fleet.listeners for bind in (*one.binds, *one.redirect_from)]
    return list(dict.fromkeys((*found, *(fleet.metrics.binds if fleet.metrics else ()))))


def without_socket(settings: TargetSettings, folder: str) -> TargetSettings:
    """Return settings with the runtime socket in a folder of the trial's own."""
    return settings._replace(runtime_socket=f"{folder}/admin.sock") if settings.runtime_socket else settings


def way_to(fleet: Fleet, pool: Pool) -> Way:
    """Return how to reach a pool; raises `LbgenError`, with what to change, when a trial cannot."""
    _refuse(pool.tls is not None, f"pool {pool.name} speaks TLS, mock GPU servers do not", _unset(pool))
    _refuse(pool.protocol != "http", f"pool {pool.name} speaks {pool.protocol}, mock GPU servers HTTP/1.1",
            f"--set pools.{pool.name}.protocol=http")  # fmt: skip
    for listener in fleet.listeners:
        for route in listener.routes:
            way = _along(listener, route, pool)
            if way is not None:
                _reachable(listener)
                return way
    raise LbgenError(f"no route that a completion can take leads to the pool {pool.name}")


def _along(listener: Listener, route: Route, pool: Pool) -> Way | None:
    match = route.match
    if pool.name != route.pool or match.prompt_over or match.max_tokens_over or match.websocket:
        return None
    if match.methods and "POST" not in match.methods:
        return None
    path = _path(route)
    if path is None:
        return None
    headers = dict(match.headers)
    for host in (*match.hosts, *listener.hosts)[:1]:
        headers["Host"] = host.replace("*", "trial")
    model = next(iter(match.models or pool.models), "mock").replace("*", "trial")
    return Way(listener, path, model, headers)


def _path(route: Route) -> str | None:
    match = route.match
    given = (*match.paths_exact, *match.paths)
    if not given:
        return COMPLETIONS
    fitting = [one for one in given if one == COMPLETIONS or (one in match.paths and _below(one))]
    if fitting:
        return COMPLETIONS
    if route.strip_prefix and match.paths:
        rest = COMPLETIONS.removeprefix(route.add_prefix)
        return match.paths[0].rstrip("/") + rest
    return None


def _below(prefix: str) -> bool:
    return COMPLETIONS.startswith(prefix.rstrip("/") + "/")


def _reachable(listener: Listener) -> None:
    name = listener.name
    _refuse(listener.tls is not None, f"listener {name} speaks TLS, whose files are for its own machine",
            f"--set listeners.{name}.tls=null")  # fmt: skip
    _refuse(listener.auth.external is not None, f"listener {name} asks an external service",
            f"--set listeners.{name}.auth=none")  # fmt: skip
    _refuse(listener.accept_proxy, f"listener {name} expects the PROXY protocol",
            f"--set listeners.{name}.accept_proxy=null")  # fmt: skip


def _unset(pool: Pool) -> str:
    return f"--set pools.{pool.name}.tls=null"


def _refuse(wrong: bool, what: str, instead: str) -> None:
    if wrong:
        raise LbgenError(f"{what}: try it without, with {instead}")


def _on_server(pool: Pool) -> Health | None:
    # A check on a port of its own would go to a port that the mock does not have.
    return pool.health._replace(port=None) if pool.health and pool.health.port else pool.health
