"""One balancer's share of what several balancers count, each for itself.

With ``balancers: N`` a cap of 32 would let 32·N requests in. Every number that is counted
per balancer is divided: rounded down, so that the sum never exceeds what was written,
but never to 0, because a cap of 0 would let nobody in (the warnings name that excess).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from lbgen.problems import warning
from lbgen.units import Rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.model import Client, Fleet, Limit, Listener, Pool
    from lbgen.problems import Path, Problem

CODE = "cap-below-balancers"


def shared_out(fleet: Fleet) -> Fleet:
    """Return the fleet as one balancer has to see it."""
    instances = fleet.balancers.instances
    if instances == 1:
        return fleet
    return fleet._replace(
        pools=tuple(_pool(pool, instances) for pool in fleet.pools),
        listeners=tuple(_listener(listener, instances) for listener in fleet.listeners),
        clients=tuple(_client(client, instances) for client in fleet.clients),
    )


def warnings(fleet: Fleet) -> Iterator[Problem]:
    """Yield a warning for each number that is smaller than the number of balancers."""
    instances = fleet.balancers.instances
    for path, number in _numbers(fleet):
        if 0 < number < instances:
            message = (
                f"{number} cannot be divided by {instances} balancers: each gets 1, together {instances}"
            )
            yield warning(CODE, message, path, f"write {instances} or more, or run fewer balancers")
    for path, rate in _rates(fleet):
        share = _rate(rate, instances)
        if share and share.requests * instances * rate.seconds > rate.requests * share.seconds:
            total = Rate(share.requests * instances, share.seconds)
            message = (
                f"{rate} cannot be divided by {instances} balancers: each gets {share}, together {total}"
            )
            yield warning(CODE, message, path)


def _numbers(fleet: Fleet) -> Iterator[tuple[Path, int]]:
    for pool in fleet.pools:
        yield (*pool.path, "max_in_flight"), pool.max_in_flight or 0
        yield (*pool.path, "queue", "size"), pool.queue.size
        for server in pool.servers:
            yield (*server.path, "max_in_flight"), server.max_in_flight or 0
    for client in fleet.clients:
        yield (*client.path, "max_in_flight"), client.max_in_flight or 0
        yield (*client.path, "burst"), client.burst
    for limit in _limits(fleet):
        yield (*limit.path, "concurrent"), limit.concurrent or 0
        yield (*limit.path, "burst"), limit.burst


def _rates(fleet: Fleet) -> Iterator[tuple[Path, Rate]]:
    holders: Iterable[Client | Limit] = chain(fleet.clients, _limits(fleet))
    for holder in holders:
        if holder.rate is not None:
            yield (*holder.path, "rate"), holder.rate


def _limits(fleet: Fleet) -> Iterator[Limit]:
    for listener in fleet.listeners:
        yield from listener.limits


def _share(number: int | None, instances: int) -> int | None:
    return number and max(1, number // instances)


def _rate(rate: Rate | None, instances: int) -> Rate | None:
    if rate is None:
        return None
    for factor in (1, 60, 3_600):
        # 1/s for two balancers is 30/m for each.
        if rate.requests * factor >= instances and rate.seconds * factor <= 3_600:
            return Rate(rate.requests * factor // instances, rate.seconds * factor)
    return Rate(1, 3_600)


def _pool(pool: Pool, instances: int) -> Pool:
    servers = pool.servers
    if any(server.max_in_flight for server in servers):
        servers = tuple(
            server._replace(max_in_flight=_share(server.max_in_flight, instances)) for server in servers
        )
    return pool._replace(
        servers=servers,
        max_in_flight=_share(pool.max_in_flight, instances),
        queue=pool.queue._replace(size=_share(pool.queue.size, instances) or 0),
    )


def _client(client: Client, instances: int) -> Client:
    return client._replace(
        rate=_rate(client.rate, instances),
        burst=_share(client.burst, instances) or 0,
        max_in_flight=_share(client.max_in_flight, instances),
    )


def _listener(listener: Listener, instances: int) -> Listener:
    return listener._replace(limits=tuple(_limit(limit, instances) for limit in listener.limits))


def _limit(limit: Limit, instances: int) -> Limit:
    return limit._replace(
        rate=_rate(limit.rate, instances),
        burst=_share(limit.burst, instances) or 0,
        concurrent=_share(limit.concurrent, instances),
    )
