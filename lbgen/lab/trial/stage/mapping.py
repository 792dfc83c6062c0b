"""The fleet as a trial runs it: other addresses, and all that cannot be had here stood in for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.model import Balancers, StrategyChoice
from lbgen.problems import LbgenError
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.model import Fleet, Health, Listener, Match, Pool, Route, TargetSettings
    from lbgen.units import Address
    from lbgen.vocabulary import Version

VERSION = "/v1"
COMPLETIONS, CHAT = f"{VERSION}/completions", f"{VERSION}/chat/completions"
EXACTLY = 1_000_000
"""How closely an exact path fits: better than any beginning of one."""


class Standing(NamedTuple):
    """Where a mock GPU server is."""

    door: Address
    """What the balancer calls."""
    control: Address
    """Plain HTTP in any case."""


class Way(NamedTuple):
    """How a request gets to the pool."""

    listener: Listener
    path: str
    model: str
    headers: Mapping[str, str]

    @property
    def chat(self) -> bool:
        """True: requests are chats, with messages."""
        return self.path.endswith(CHAT.removeprefix(VERSION))

    @property
    def server_name(self) -> str | None:
        """Whom a TLS client asks for."""
        host = self.headers.get("Host")
        return host.partition(":")[0] if host and self.listener.tls else None


def with_strategy(fleet: Fleet, pool: Pool, name: str, parameters: Mapping[str, object]) -> Fleet:
    """Return the fleet of one balancer with another strategy for a pool."""
    pools = tuple(
        one._replace(strategy=StrategyChoice(name, parameters))
        if one.name == pool.name and one.strategy.name != name
        else one
        for one in fleet.pools
    )
    return fleet._replace(pools=pools, balancers=Balancers(1, {}))


def undivided(fleet: Fleet, pool: Pool) -> tuple[Fleet, list[str]]:
    """Return the fleet with routes that share requests out leading to one pool alone, and their names."""
    names = []

    def whole(route: Route) -> Route:
        if pool.name not in route.split:
            return route
        names.append(route.name)
        return route._replace(pool=pool.name, split={}, when_down=None)

    listeners = tuple(one._replace(routes=tuple(map(whole, one.routes))) for one in fleet.listeners)
    return fleet._replace(listeners=listeners), names


def readdressed(
    fleet: Fleet,
    pool: Pool,
    servers: Mapping[str, Address],
    listeners: Mapping[Address, Address],
    agent: Address | None = None,
) -> Fleet:
    """Return the fleet with mapped addresses: of one pool's servers by name, of listeners, of the agent."""

    def moved(one: Pool) -> Pool:
        if one.name != pool.name:
            return one
        there = tuple(server._replace(address=servers[server.name]) for server in one.servers)
        strategy = _asking(one.strategy, agent) if agent else one.strategy
        return one._replace(servers=there, discover=None, health=_on_server(one), strategy=strategy)

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


def _asking(strategy: StrategyChoice, agent: Address) -> StrategyChoice:
    place = {"agent_host": agent.host, "agent_port": agent.port}
    return strategy._replace(parameters={**strategy.parameters, **place})


def binds_of(fleet: Fleet) -> list[Address]:
    """Return every address that the balancer listens on, each once."""
    found = [bind for one in fleet.listeners for bind in (*one.binds, *one.redirect_from)]
    return list(dict.fromkeys((*found, *(fleet.metrics.binds if fleet.metrics else ()))))


def within(fleet: Fleet, folder: str, directory: str | None = None) -> Fleet:
    """Return the fleet with runtime sockets in a folder of the trial's own, and its files in `directory`."""

    def moved(settings: TargetSettings) -> TargetSettings:
        socket = f"{folder}/admin.sock" if settings.runtime_socket else None
        return settings._replace(runtime_socket=socket, directory=directory or settings.directory)

    return fleet._replace(targets=tuple(map(moved, fleet.targets)))


def version_in(fleet: Fleet, target: str) -> Version:
    """Return the version of a target in a fleet, the oldest where the fleet is for others."""
    return next((one.version for one in fleet.targets if one.name == target), TARGETS[target].oldest)


def way_to(fleet: Fleet, pool: Pool, *, chat: bool = False) -> Way:
    """Return how to reach a pool, by `chat` or by whatever a route takes.

    Raises `LbgenError`, with what to change, when a trial cannot.
    """
    _refuse(pool.protocol != "http", f"pool {pool.name} speaks {pool.protocol}, mock GPU servers HTTP/1.1",
            f"--set pools.{pool.name}.protocol=http")  # fmt: skip
    endpoints = (CHAT, COMPLETIONS) if chat else (COMPLETIONS, CHAT)
    for listener, route, endpoint in _ways(fleet, endpoints):
        way = _along(listener, route, pool, endpoint)
        if way is not None:
            _reachable(listener)
            return way
    raise LbgenError(f"no route that a completion can take leads to the pool {pool.name}")


def _ways(fleet: Fleet, endpoints: tuple[str, ...]) -> Iterator[tuple[Listener, Route, str]]:
    """Yield every route with each endpoint, in the order of the file."""
    for listener in fleet.listeners:
        for route in listener.routes:
            for endpoint in endpoints:
                yield listener, route, endpoint


def _along(listener: Listener, route: Route, pool: Pool, endpoint: str) -> Way | None:
    match = route.match
    if pool.name != route.pool or match.prompt_over or match.max_tokens_over or match.websocket:
        return None
    if match.methods and "POST" not in match.methods:
        return None
    path = _path(route, endpoint)
    if path is None or any(_sooner(one.match, match, path) for one in listener.routes):
        return None
    headers = dict(match.headers)
    for host in (*match.hosts, *listener.hosts)[:1]:
        headers["Host"] = host.replace("*", "trial")
    model = next(iter(match.models or pool.models), "mock").replace("*", "trial")
    return Way(listener, path, model, headers)


def _path(route: Route, endpoint: str) -> str | None:
    """Return what a client has to ask a route for, so that a server is asked for an endpoint."""
    if route.strip_prefix and route.match.paths:
        begun = next(one for one in (VERSION, "") if route.add_prefix.endswith(one))
        return route.match.paths[0].rstrip("/") + endpoint.removeprefix(begun)
    return endpoint if _fits(route.match, endpoint) is not None else None


def _fits(match: Match, path: str) -> int | None:
    """Return how closely the paths of a route fit; None: not at all."""
    if path in match.paths_exact:
        return EXACTLY
    fitting = [one for one in match.paths if path == one or path.startswith(one.rstrip("/") + "/")]
    if fitting:
        return max(map(len, fitting))
    return None if match.paths or match.paths_exact else 0


def _sooner(other: Match, match: Match, path: str) -> bool:
    """Tell whether another route, by its path alone, takes what was meant for this one."""
    its, ours = _fits(other, path), _fits(match, path)
    return other.conditions == 0 and its is not None and its > (ours or 0)


def _reachable(listener: Listener) -> None:
    name = listener.name
    _refuse(listener.auth.external is not None, f"listener {name} asks an external service",
            f"--set listeners.{name}.auth=none")  # fmt: skip
    _refuse(listener.accept_proxy, f"listener {name} expects the PROXY protocol",
            f"--set listeners.{name}.accept_proxy=null")  # fmt: skip


def _refuse(wrong: bool, what: str, instead: str) -> None:
    if wrong:
        raise LbgenError(f"{what}: try it without, with {instead}")


def _on_server(pool: Pool) -> Health | None:
    # A check on a port of its own would go to a port that the mock does not have.
    return pool.health._replace(port=None) if pool.health and pool.health.port else pool.health
