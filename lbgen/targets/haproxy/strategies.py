"""How each strategy is said to HAProxy, or why it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.vocabulary import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lbgen.model import Pool, TargetSettings

    Judge = Callable[[Pool, TargetSettings], Refused | None]


def _always(pool: Pool, settings: TargetSettings) -> None:  # noqa: ARG001 - one signature for all
    return None


def _later(pool: Pool, settings: TargetSettings) -> Refused:  # noqa: ARG001
    return Refused(f"cannot be '{pool.strategy.name}' yet", "strategy: least_conn")


STRATEGIES: Mapping[str, Judge] = {
    "round_robin": _always,
    "least_conn": _always,
    "random_two": _always,
    "session": _later,
    "prefix": _later,
    "kv_cache": _later,
    "pack": _later,
}

_METHODS = {"round_robin": "roundrobin", "least_conn": "leastconn", "random_two": "random(2)"}


def refusal(pool: Pool, settings: TargetSettings) -> Refused | None:
    """Return why this pool's strategy cannot be had; None when it can."""
    return STRATEGIES[pool.strategy.name](pool, settings)


def balance(pool: Pool, settings: TargetSettings) -> tuple[str, ...]:
    """Return the lines of a backend that choose a server.

    A refused strategy whose loss was accepted (`without: [strategy]`) is least_conn.
    """
    name = "least_conn" if refusal(pool, settings) else pool.strategy.name
    return (f"balance {_METHODS[name]}",)
