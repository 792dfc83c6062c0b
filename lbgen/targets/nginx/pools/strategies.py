"""How each strategy is said to NGINX, or why it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.strategies.prefix import prefix_of
from lbgen.strategies.session import session_of
from lbgen.targets.nginx.pools import affinity, sessions
from lbgen.targets.spec import Syntax
from lbgen.vocabulary import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lbgen.model import Pool, TargetSettings
    from lbgen.targets.nginx.assembly import Assembly


def _always(pool: Pool, settings: TargetSettings) -> None:  # noqa: ARG001 - one signature for all
    return None


def _no_backups(pool: Pool, settings: TargetSettings) -> Refused | None:  # noqa: ARG001
    # Seen on 1.22.1: "balancing method does not support parameter "backup"" with hash and random.
    if any(server.backup for server in pool.servers):
        return Refused(
            f"cannot be '{pool.strategy.name}' in a pool with backup servers",
            "strategy: least_conn, or a separate pool for the backups with when_down",
        )
    return None


def _no_metrics(pool: Pool, settings: TargetSettings) -> Refused:  # noqa: ARG001
    return Refused(
        "cannot be 'kv_cache': weights of a running NGINX cannot be changed",
        "strategy: least_conn, which adapts to the load; or the HAProxy target",
    )


def _no_order(pool: Pool, settings: TargetSettings) -> Refused:  # noqa: ARG001
    return Refused(
        "cannot be 'pack': NGINX has no method that fills servers in order",
        "strategy: least_conn with the spare servers as backup; or the HAProxy target",
    )


def refusal(pool: Pool, settings: TargetSettings) -> Refused | None:
    """Return why this pool's strategy cannot be had; None when it can."""
    return STRATEGIES[pool.strategy.name].refused(pool, settings)


def method(made: Assembly, pool: Pool) -> Syntax:
    """Return the directive that chooses a server, without its semicolon; empty for round robin.

    A refused strategy whose loss was accepted (`without: [strategy]`) is least_conn.
    """
    if refusal(pool, made.settings):
        return Syntax("least_conn")
    return STRATEGIES[pool.strategy.name].method(made, pool)


def _session(made: Assembly, pool: Pool) -> Syntax:
    session = session_of(pool)
    return sessions.method(made, session) if session else Syntax("least_conn")


def sticky(made: Assembly, pool: Pool, upstream: str) -> Syntax:
    """Return the directive that binds requests to servers beside the method; empty: there is none."""
    if refusal(pool, made.settings):
        return Syntax("")
    if prefix_of(pool):
        return affinity.sticky(made, pool, upstream)
    return sessions.sticky(made, pool, upstream)


class Way(NamedTuple):
    """How NGINX is told a strategy."""

    refused: Callable[[Pool, TargetSettings], Refused | None]
    """Returns why it cannot be; None: it can."""
    method: Callable[[Assembly, Pool], Syntax] = lambda _made, _pool: Syntax("least_conn")
    """Returns the directive that chooses a server; where it is always refused, what stands in for it."""


STRATEGIES: Mapping[str, Way] = {
    "round_robin": Way(_always, lambda _made, _pool: Syntax("")),
    "least_conn": Way(_always),
    "random_two": Way(_no_backups, lambda _made, _pool: Syntax("random two least_conn")),
    "session": Way(sessions.refusal, _session),
    "prefix": Way(_no_backups, affinity.method),
    "kv_cache": Way(_no_metrics),
    "pack": Way(_no_order),
}
"""The one row of each strategy."""

REFUSALS = {name: way.refused for name, way in STRATEGIES.items()}
"""What others ask of them: why a strategy cannot be."""
