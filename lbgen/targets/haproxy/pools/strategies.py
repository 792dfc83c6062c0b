"""How each strategy is said to HAProxy, or why it cannot be."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from lbgen.strategies.kv_cache import kv_of
from lbgen.strategies.prefix import prefix_of
from lbgen.strategies.session import session_of
from lbgen.targets.haproxy.pools.learned import HASHED, learned_lines, sticks
from lbgen.targets.haproxy.pools.sessions import session_lines
from lbgen.vocabulary import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lbgen.model import Fleet, Pool, TargetSettings


def _always(pool: Pool, settings: TargetSettings) -> None:  # noqa: ARG001 - one signature for all
    return None


def _capped(pool: Pool, settings: TargetSettings) -> Refused | None:  # noqa: ARG001
    if pool.discover is None and all(pool.cap(server) for server in pool.servers):
        return None
    if pool.max_in_flight:
        return None
    return Refused(
        "cannot be 'pack' without max_in_flight: the first server would take everything",
        "max_in_flight for the pool or for each server",
    )


def _listed(pool: Pool, settings: TargetSettings) -> Refused | None:  # noqa: ARG001
    if pool.discover is None or not pool.discover.dns:
        return None
    return Refused(
        "cannot be 'kv_cache' with 'discover': `lbgen agent` has to know the servers",
        "the servers one by one, or the strategy 'least_conn'",
    )


def refusal(pool: Pool, settings: TargetSettings) -> Refused | None:
    """Return why this pool's strategy cannot be had; None when it can."""
    return STRATEGIES[pool.strategy.name].refused(pool, settings)


def balance(fleet: Fleet, pool: Pool, settings: TargetSettings) -> Iterator[str]:
    """Yield the lines of a backend that choose a server.

    A refused strategy whose loss was accepted (`without: [strategy]`) is least_conn.
    """
    name = "least_conn" if refusal(pool, settings) else pool.strategy.name
    yield from STRATEGIES[name].lines(fleet, pool)


def _by(algorithm: str) -> Callable[[Fleet, Pool], Iterator[str]]:
    return lambda _fleet, _pool: iter((f"balance {algorithm}",))


def _session(fleet: Fleet, pool: Pool) -> Iterator[str]:
    session = session_of(pool)
    if session:
        yield from session_lines(fleet, pool, session)


def _prefix(fleet: Fleet, pool: Pool) -> Iterator[str]:
    if sticks(fleet, pool):
        yield from learned_lines(fleet, pool)
    elif by := prefix_of(pool):
        yield from _hash(f"var({HASHED})", round(by.load_factor * 100))


def _hash(key: str, factor: int) -> Iterator[str]:
    # Without a key HAProxy spreads by round robin (its manual, `balance hash`).
    yield f"balance hash {key}"
    yield "hash-type consistent wt6 avalanche"
    # Also the way around a server at its maxconn, where requests would wait till 503 (seen on 2.6).
    yield f"hash-balance-factor {factor}"


def _has_homes(pool: Pool) -> bool:
    return bool(session_of(pool) or prefix_of(pool))


def server_ids(pool: Pool) -> Mapping[str, int]:
    """Return each server's id by name, made from its address; empty where ids do not matter.

    A consistent hash places servers by id. With ids by position, removing the first of four servers moved 55
    of 63 keys of the others (seen on 2.6 to 3.2).
    """
    if not _has_homes(pool):
        return {}
    taken: dict[int, str] = {}
    for server in pool.servers:
        number = zlib.crc32(str(server.address).encode()) % 2_000_000_000 + 1
        while number in taken:
            number += 1
        taken[number] = server.name
    return {name: number for number, name in taken.items()}


def weight_scale(fleet: Fleet, pool: Pool) -> int:
    """Return by what the weights are multiplied; HAProxy's largest weight is 256."""
    most = 256 // max((server.weight for server in pool.servers), default=1) if pool.servers else 1
    if kv_of(pool):
        # The agent answers in percent of the weight, in whole numbers: 20 % of 1 would be 0 (seen on 2.6).
        return max(most, 1)
    if _has_homes(pool) and not sticks(fleet, pool):
        # A server has 16 points on the ring for each unit: with 16 alone the shares were 18, 10 and 2 of 30.
        return max(min(most, 64), 1)
    return 1


class Way(NamedTuple):
    """How HAProxy is told a strategy."""

    refused: Callable[[Pool, TargetSettings], Refused | None]
    """Returns why it cannot be; None: it can."""
    lines: Callable[[Fleet, Pool], Iterator[str]]
    """Yields the lines of a backend that choose a server."""


STRATEGIES: Mapping[str, Way] = {
    "round_robin": Way(_always, _by("roundrobin")),
    "least_conn": Way(_always, _by("leastconn")),
    "random_two": Way(_always, _by("random(2)")),
    "session": Way(_always, _session),
    "prefix": Way(_always, _prefix),
    # The agent's weights act on the requests in flight.
    "kv_cache": Way(_listed, _by("leastconn")),
    "pack": Way(_capped, _by("first")),
}
"""The one row of each strategy."""

REFUSALS = {name: way.refused for name, way in STRATEGIES.items()}
"""What others ask of them: why a strategy cannot be."""
