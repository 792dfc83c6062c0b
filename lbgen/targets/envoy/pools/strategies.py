"""How each strategy is said to Envoy, or why it cannot be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lbgen.strategies.prefix import prefix_of
from lbgen.strategies.session import session_of
from lbgen.targets.envoy.language.words import Node, duration, typed
from lbgen.vocabulary import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lbgen.model import Fleet, Pool, TargetSettings
    from lbgen.strategies.session import SessionParameters

_POINTS = 160
"""Of a server on the ring, for the smallest weight. Left to Envoy, a server less would give the others more
points, and so move sessions of servers that stay (1.36, 1.40)."""
_LARGEST_RING = 8_388_608
CONVERSATION_BYTES = 16_384
"""Of the first message of the user that go into a conversation's key."""
SESSION_LOAD = 150
"""Percent of the average at which a session that is a hint passes its server over, as on HAProxy."""


def _always(pool: Pool, settings: TargetSettings) -> None:  # noqa: ARG001 - one signature for all
    return None


def _never(reason: str, instead: str) -> Callable[[Pool, TargetSettings], Refused | None]:
    return lambda _pool, _settings: Refused(reason, instead)


def _session(pool: Pool, settings: TargetSettings) -> Refused | None:  # noqa: ARG001
    by = session_of(pool)
    if by and by.learn:
        return Refused(
            "cannot be 'learn': Envoy would replace the session's name by one that contains an address",
            "session: {header: NAME}, which is hashed",
        )
    return None


def refusal(pool: Pool, settings: TargetSettings) -> Refused | None:
    """Return why this pool's strategy cannot be had; None when it can."""
    return STRATEGIES[pool.strategy.name].refused(pool, settings)


def policy(pool: Pool, settings: TargetSettings) -> Node:
    """Return the load balancing policy of a pool's cluster; a refused strategy is least_conn."""
    name = "least_conn" if refusal(pool, settings) else pool.strategy.name
    return {"policies": [{"typed_extension_config": STRATEGIES[name].policy(pool)}]}


def hashes(pool: Pool, settings: TargetSettings) -> bool:
    """Tell whether a pool's servers are chosen by a key of the request."""
    keyed = session_of(pool) or prefix_of(pool)
    return keyed is not None and not refusal(pool, settings) and not inserts(pool)


def inserts(pool: Pool) -> str:
    """Return the cookie that Envoy sets to name a session's server; empty where it sets none."""
    by = session_of(pool)
    return (by.insert or "") if by else ""


def _policy(name: str, **fields: object) -> Node:
    package = f"envoy.extensions.load_balancing_policies.{name}.v3"
    kind = "".join(word.title() for word in name.split("_"))
    return {
        "name": f"envoy.load_balancing_policies.{name}",
        "typed_config": typed(f"{package}.{kind}", **fields),
    }


def _warming(pool: Pool) -> Node:
    return {"slow_start_config": {"slow_start_window": duration(pool.warmup)}} if pool.warmup else {}


def _round_robin(pool: Pool) -> Node:
    return _policy("round_robin", **_warming(pool))


def _least(pool: Pool) -> Node:
    # Of all servers, not of two drawn ones: Envoy's own way leaves one of three idle with two requests.
    return _policy("least_request", selection_method="FULL_SCAN", **_warming(pool))


def _two(pool: Pool) -> Node:
    return _policy("least_request", choice_count={"value": 2}, **_warming(pool))


def _ring(pool: Pool) -> Node:
    if inserts(pool):
        # Who brings no cookie yet is spread like this.
        return _least(pool)
    factor = _factor(pool)
    bounded = {"consistent_hashing_lb_config": {"hash_balance_factor": factor}} if factor else {}
    weights = [server.weight for server in pool.servers if server.weight and not server.backup] or [1]
    size = min(_LARGEST_RING, -(-_POINTS * sum(weights) // min(weights)))
    return _policy("ring_hash", minimum_ring_size=size, maximum_ring_size=_LARGEST_RING, **bounded)


def _factor(pool: Pool) -> int:
    if session := session_of(pool):
        return 0 if session.strict else SESSION_LOAD
    by = prefix_of(pool)
    return round(by.load_factor * 100) if by else 0


def hash_policies(pool: Pool) -> Iterator[Node]:
    """Yield by what of a request its server is chosen; the first that is there counts."""
    if session := session_of(pool):
        yield from _session_policies(session)
        return
    by = prefix_of(pool)
    for name in by.headers if by and by.by_conversation else ():
        yield {"header": {"header_name": name}, "terminal": True}
    for kind in body_keys(pool):
        yield {"header": {"header_name": key_header(kind)}, "terminal": True}


def _session_policies(by: SessionParameters) -> Iterator[Node]:
    if by.header:
        yield {"header": {"header_name": by.header}, "terminal": True}
    if by.cookie:
        yield {"cookie": {"name": by.cookie}, "terminal": True}
    if by.query:
        yield {"query_parameter": {"name": by.query}, "terminal": True}
    if by.body:
        name = key_header(f"member:{by.body.removeprefix('$.')}")
        yield {"header": {"header_name": name}, "terminal": True}
    if by.client:
        yield {"header": {"header_name": key_header("client")}, "terminal": True}
    if by.ip:
        yield {"connection_properties": {"source_ip": True}, "terminal": True}


def body_keys(pool: Pool) -> tuple[str, ...]:
    """Return what the script has to find in bodies for a pool, in its words."""
    session = session_of(pool)
    if session and session.body:
        return (f"member:{session.body.removeprefix('$.')}",)
    by = prefix_of(pool)
    if by is None:
        return ()
    return (f"conversation:{CONVERSATION_BYTES}",) if by.by_conversation else (f"{by.prompt}:{by.bytes}",)


def key_header(kind: str) -> str:
    """Return the header in which a script of ours puts a key of this kind; no server sees it.

    1.36 has no object of the filter state that could be hashed, and takes headers away before it hashes.
    """
    return f"x-lb-key-{re.sub('[^a-z0-9]+', '-', kind.lower())}"


def key_headers(fleet: Fleet, pool: Pool) -> tuple[str, ...]:
    """Return those headers of a pool's requests that a script of ours made."""
    kinds = list(body_keys(pool)) if hashes(pool, fleet.target("envoy")) else []
    by = session_of(pool)
    routes = [route for listener in fleet.listeners for route in listener.routes if pool.name in route.pools]
    if (by and by.client) or any(len(one.split) > 1 and one.split_by == "client" for one in routes):
        kinds.append("client")
    return tuple(map(key_header, kinds))


class Way(NamedTuple):
    """How Envoy is told a strategy."""

    refused: Callable[[Pool, TargetSettings], Refused | None]
    """Returns why it cannot be; None: it can."""
    policy: Callable[[Pool], Node]


_NO_WEIGHTS = _never(
    "cannot be 'kv_cache': `lbgen agent` only works with HAProxy",
    "least_conn, or the HAProxy target",
)
_NO_PACK = _never(
    "cannot be 'pack': Envoy's priorities depend on health, not on load",
    "least_conn, or the HAProxy target",
)

STRATEGIES: Mapping[str, Way] = {
    "round_robin": Way(_always, _round_robin),
    "least_conn": Way(_always, _least),
    "random_two": Way(_always, _two),
    "session": Way(_session, _ring),
    "prefix": Way(_always, _ring),
    "kv_cache": Way(_NO_WEIGHTS, _least),
    "pack": Way(_NO_PACK, _least),
}
"""The one row of each strategy."""

REFUSALS = {name: way.refused for name, way in STRATEGIES.items()}
"""What others ask of them: why a strategy cannot be."""
