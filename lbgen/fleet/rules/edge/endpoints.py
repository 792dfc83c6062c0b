"""What a fleet binds on the balancer's machine, and what the balancer calls for a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.fleet.rules.rule import targets_that
from lbgen.strategies.kv_cache import kv_of
from lbgen.targets.registry import TARGETS
from lbgen.units import Address, parse_host

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Pool
    from lbgen.problems import Path


class Bound(NamedTuple):
    """An address that something of the fleet binds on the balancer's machine."""

    address: Address
    kind: str
    """``door``, ``listener``, ``redirect``, ``metrics``, ``agent`` or ``peer``."""
    owner: str
    """In words: ``listener 'public'``."""
    path: Path


class Called(NamedTuple):
    """An address that the balancer connects to for a request."""

    address: Address
    what: str
    path: Path


def all_called(fleet: Fleet) -> Iterator[Called]:
    """Yield each server, and what else is asked for a request: health checks and the service of `auth`."""
    for pool in fleet.pools:
        for server in pool.servers:
            yield Called(server.address, "requests", server.path)
            if pool.health and pool.health.port:
                checked = server.address._replace(port=pool.health.port)
                yield Called(checked, "health checks", (*pool.path, "health", "port"))
        if pool.discover and pool.discover.dns and pool.discover.port:
            address = Address(pool.discover.dns, pool.discover.port)
            yield Called(address, "requests", (*pool.path, "discover", "dns"))
    for listener in fleet.listeners:
        if listener.auth.external:
            asked = _of_url(listener.auth.external.url)
            if asked:
                yield Called(asked, "questions about keys", (*listener.path, "auth", "external", "url"))


def _of_url(url: str) -> Address | None:
    scheme, _, rest = url.partition("://")
    place = rest.partition("/")[0]
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdecimal():
        host, port = place, "443" if scheme == "https" else "80"
    try:
        return Address(parse_host(host), int(port))
    except ValueError:
        return None


def all_bound(fleet: Fleet) -> Iterator[Bound]:
    """Yield what targets bind for themselves, then listeners, the metrics listener, agents and peers."""
    yield from all_doors(fleet)
    for listener in fleet.listeners:
        for bind in dict.fromkeys(listener.binds):
            yield Bound(bind, "listener", f"listener '{listener.name}'", (*listener.path, "bind"))
    for listener in fleet.listeners:
        for bind in dict.fromkeys(listener.redirect_from):
            owner = f"the redirect of listener '{listener.name}'"
            yield Bound(bind, "redirect", owner, (*listener.path, "redirect_from"))
    if fleet.metrics:
        for bind in dict.fromkeys(fleet.metrics.binds):
            yield Bound(bind, "metrics", "the metrics listener", (*fleet.metrics.path, "bind"))
    if targets_that(fleet, lambda able: able.agent_checks):
        yield from _bound_by_agents(fleet)
    if targets_that(fleet, lambda able: able.peers):
        for name, address in fleet.balancers.peers.items():
            yield Bound(
                address, "peer", f"the balancer '{name}' among its peers", ("balancers", "peers", name)
            )


def all_doors(fleet: Fleet) -> Iterator[Bound]:
    """Yield what the targets bind beside the fleet's listeners."""
    for settings in fleet.targets:
        target = TARGETS[settings.name]
        for door in target.doors(settings):
            owner = f"'{door.key}' of {target.title}"
            yield Bound(door.address, "door", owner, (*settings.path, door.key))


def _bound_by_agents(fleet: Fleet) -> Iterator[Bound]:
    """Yield where `lbgen agent` answers; pools that name one address share the agent."""
    seen = set[Address]()
    for pool in fleet.pools:
        if by := kv_of(pool):
            address = Address(by.agent_host, by.agent_port)
            if address not in seen:
                seen.add(address)
                yield Bound(
                    address, "agent", f"'lbgen agent' of pool '{pool.name}'", _agent_path(fleet, pool)
                )


def _agent_path(fleet: Fleet, pool: Pool) -> Path:
    written = (*pool.path, "strategy", "agent_port")
    return written if fleet.origins.written(written) else (*pool.path, "strategy")
