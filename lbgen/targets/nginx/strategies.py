"""How each strategy is said to NGINX, or why it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.spec import Syntax
from lbgen.vocabulary import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lbgen.model import Pool, TargetSettings

    Judge = Callable[[Pool, TargetSettings], Refused | None]


def _always(pool: Pool, settings: TargetSettings) -> None:  # noqa: ARG001 - one signature for all
    return None


def _no_backups(pool: Pool, settings: TargetSettings) -> Refused | None:  # noqa: ARG001
    # Seen on 1.22.1: "balancing method does not support parameter "backup"" with hash and random.
    if any(server.backup for server in pool.servers):
        return Refused(
            f"cannot be '{pool.strategy.name}' in a pool with backup servers",
            "strategy: least_conn, or a pool of their own for the backups",
        )
    return None


def _later(pool: Pool, settings: TargetSettings) -> Refused:  # noqa: ARG001
    return Refused(f"cannot be '{pool.strategy.name}' yet", "strategy: least_conn, or the HAProxy target")


def _no_metrics(pool: Pool, settings: TargetSettings) -> Refused:  # noqa: ARG001
    return Refused(
        "cannot be 'kv_cache': weights of a running NGINX cannot be changed",
        "strategy: least_conn, which follows load by itself; or the HAProxy target",
    )


def _no_order(pool: Pool, settings: TargetSettings) -> Refused:  # noqa: ARG001
    return Refused(
        "cannot be 'pack': NGINX has no method that fills servers in order",
        "strategy: least_conn with the spare servers as backup; or the HAProxy target",
    )


STRATEGIES: Mapping[str, Judge] = {
    "round_robin": _always,
    "least_conn": _always,
    "random_two": _no_backups,
    "session": _later,
    "prefix": _later,
    "kv_cache": _no_metrics,
    "pack": _no_order,
}

_METHODS = {
    "round_robin": Syntax(""),
    "least_conn": Syntax("least_conn"),
    "random_two": Syntax("random two least_conn"),
}


def refusal(pool: Pool, settings: TargetSettings) -> Refused | None:
    """Return why this pool's strategy cannot be had; None when it can."""
    return STRATEGIES[pool.strategy.name](pool, settings)


def method(pool: Pool, settings: TargetSettings) -> Syntax:
    """Return the directive that chooses a server, without its semicolon; empty for round robin.

    A refused strategy whose loss was accepted (`without: [strategy]`) is least_conn.
    """
    if refusal(pool, settings):
        return _METHODS["least_conn"]
    return _METHODS[pool.strategy.name]
