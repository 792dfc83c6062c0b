"""From a pool of the fleet file to what is simulated."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from lbgen.model import State, StrategyChoice
from lbgen.simulate.servers.setup import Detection, QueueSetup, ServerSetup, Setup
from lbgen.simulate.servers.step_times.profile_file import profile_named
from lbgen.simulate.servers.step_times.profiles import DEFAULT_PROFILE, PROFILES
from lbgen.strategies.registry import ALIASES, STRATEGIES
from lbgen.targets.registry import TARGETS
from lbgen.targets.spec import Abilities

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.model import Fleet, Pool, Server
    from lbgen.simulate.servers.step_times.profiles import Profile

IDEAL = Abilities(queues=True, active_checks=True, ejects=True)
"""What a strategy as it is meant can rely on."""


def canonical(name: str) -> str | None:
    """Return a strategy's canonical name; None when there is no such strategy."""
    return name if name in STRATEGIES else ALIASES.get(name)


def setup_of(fleet: Fleet, pool: Pool, strategy: str, target: str | None, profiles: Sequence[str]) -> Setup:
    """Return the pool as one of the fleet's balancers sees it (`shared_out`) under another strategy.

    `profiles` are names or files, or ``GLOB=NAME`` for the servers of that name; raises `LbgenError`.
    """
    known = STRATEGIES[strategy]
    able = TARGETS[target].abilities if target else IDEAL
    defaults = {parameter.name: parameter.default for parameter in known.parameters}
    own: Mapping[str, object] = pool.strategy.parameters if pool.strategy.name == strategy else {}
    return Setup(
        servers=tuple(_server(pool, server, profile_of(server.name, profiles)) for server in pool.servers),
        strategy=strategy,
        parameters={**defaults, **own, **_further(fleet, pool, strategy, target)},
        target=target,
        balancers=fleet.balancers.instances,
        queue=_queue(pool) if able.queues else None,
        retries=pool.retry.attempts if "connect" in pool.retry.on else 0,
        detection=_detection(pool, able),
    )


def _further(fleet: Fleet, pool: Pool, strategy: str, target: str | None) -> Mapping[str, object]:
    """Return what else decides how a target chooses under this strategy."""
    if target is None:
        return {}
    return TARGETS[target].behaviour.further(fleet, pool._replace(strategy=StrategyChoice(strategy)))


def profile_of(server: str, texts: Sequence[str]) -> Profile:
    """Return the last profile that fits a server, by name or from a file; raises `LbgenError` for none."""
    chosen = PROFILES[DEFAULT_PROFILE]
    for text in texts:
        glob, _, name = text.rpartition("=")
        profile = profile_named(name)
        if not glob or fnmatchcase(server, glob):
            chosen = profile
    return chosen


def _server(pool: Pool, server: Server, profile: Profile) -> ServerSetup:
    return ServerSetup(
        server.name, profile, server.weight, pool.cap(server), server.state is State.UP, server.backup
    )


def _queue(pool: Pool) -> QueueSetup:
    rules = pool.queue
    return QueueSetup(rules.size, rules.timeout / 1000, rules.order == "shortest_first")


def _detection(pool: Pool, able: Abilities) -> Detection:
    health, passive = pool.health, pool.passive_health
    return Detection(
        health.interval * health.fall / 1000 if health and able.active_checks else None,
        health.interval * health.rise / 1000 if health and able.active_checks else 0.0,
        passive.failures if able.ejects else 0,
        passive.eject / 1000,
    )
