"""From a pool of the fleet file to what is simulated."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from lbgen.model import State, StrategyChoice
from lbgen.problems import LbgenError
from lbgen.simulate.profiles import DEFAULT_PROFILE, NAMES, PROFILES
from lbgen.simulate.setup import Detection, QueueSetup, ServerSetup, Setup
from lbgen.strategies.registry import ALIASES, STRATEGIES
from lbgen.targets.haproxy.learned import sticks
from lbgen.targets.nginx.affinity import homes_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.model import Fleet, Pool, Server
    from lbgen.simulate.profiles import Profile

IDEAL = "ideal"


def canonical(name: str) -> str | None:
    """Return a strategy's canonical name; None when there is no such strategy."""
    return name if name in STRATEGIES else ALIASES.get(name)


def setup_of(fleet: Fleet, pool: Pool, strategy: str, target: str | None, profiles: Sequence[str]) -> Setup:
    """Return the pool as one of the fleet's balancers sees it (`shared_out`) under another strategy.

    `profiles` are names, or ``GLOB=NAME`` for the servers of that name; raises `LbgenError` for unknown ones.
    """
    known = STRATEGIES[strategy]
    flavour = target or IDEAL
    defaults = {parameter.name: parameter.default for parameter in known.parameters}
    own: Mapping[str, object] = pool.strategy.parameters if pool.strategy.name == strategy else {}
    return Setup(
        servers=tuple(_server(pool, server, profile_of(server.name, profiles)) for server in pool.servers),
        strategy=strategy,
        parameters={**defaults, **own, **_way(fleet, pool, strategy, target)},
        flavour=flavour if flavour in known.choosers else IDEAL,
        balancers=fleet.balancers.instances,
        queue=None if target == "nginx" else _queue(pool),
        retries=pool.retry.attempts if "connect" in pool.retry.on else 0,
        detection=_detection(pool, target),
    )


def _way(fleet: Fleet, pool: Pool, strategy: str, target: str | None) -> Mapping[str, object]:
    """Return how a target's version does `prefix` for this fleet, where there are several ways."""
    if strategy != "prefix" or target is None:
        return {}
    asked = pool._replace(strategy=StrategyChoice(strategy))
    if target == "nginx":
        return {"way": homes_of(fleet, asked, fleet.target(target))}
    return {} if sticks(fleet, asked) else {"hashed": True}


def profile_of(server: str, texts: Sequence[str]) -> Profile:
    """Return the last profile that fits a server; raises `LbgenError` for a name that does not exist."""
    chosen = DEFAULT_PROFILE
    for text in texts:
        glob, _, name = text.rpartition("=")
        if name not in PROFILES:
            raise LbgenError(f"'{name}' is not a profile: there are {', '.join(NAMES)}")
        if not glob or fnmatchcase(server, glob):
            chosen = name
    return PROFILES[chosen]


def _server(pool: Pool, server: Server, profile: Profile) -> ServerSetup:
    return ServerSetup(
        server.name, profile, server.weight, pool.cap(server), server.state is State.UP, server.backup
    )


def _queue(pool: Pool) -> QueueSetup:
    rules = pool.queue
    return QueueSetup(rules.size, rules.timeout / 1000, rules.order == "shortest_first")


def _detection(pool: Pool, target: str | None) -> Detection:
    health, passive = pool.health, pool.passive_health
    checked = health is not None and target != "nginx"  # NGINX has no active checks
    ejects = target != "haproxy"  # HAProxy ejects by real requests only where that was written
    return Detection(
        health.interval * health.fall / 1000 if health and checked else None,
        health.interval * health.rise / 1000 if health and checked else 0.0,
        passive.failures if ejects else 0,
        passive.eject / 1000,
    )
