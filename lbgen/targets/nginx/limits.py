"""What NGINX of a version cannot do for a fleet: degraded or refused, never silently dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.nginx.features import FEATURES, has
from lbgen.targets.nginx.proxying import read_timeout
from lbgen.targets.nginx.strategies import refusal
from lbgen.targets.verdicts import Verdicts
from lbgen.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.model import Fleet, Pool
    from lbgen.problems import Problem

    Rule = Callable[[Fleet, Verdicts], None]

HAPROXY = "use the HAProxy target"


def limits(fleet: Fleet) -> Iterator[Problem]:
    """Yield every verdict; defaults cause none, only what was written."""
    verdicts = Verdicts("NGINX", fleet.target("nginx"))
    for rule in RULES:
        rule(fleet, verdicts)
    yield from verdicts.problems()


def _strategy(fleet: Fleet, verdicts: Verdicts) -> None:
    settings = fleet.target("nginx")
    for pool in fleet.pools:
        refused = refusal(pool, settings)
        if refused:
            verdicts.refused("strategy", (*pool.path, "strategy"), refused.reason, refused.instead)


def _protection(fleet: Fleet, verdicts: Verdicts) -> None:
    """Name what open-source NGINX lacks to protect servers."""
    for pool in fleet.pools:
        if pool.health and _written(fleet, pool, "health"):
            reason = "is not checked: open-source NGINX has no active checks, only passive_health"
            verdicts.degraded("health", (*pool.path, "health"), reason, HAPROXY)
        if pool.warmup and _written(fleet, pool, "warmup"):
            reason = "has no effect: slow start is not in open-source NGINX"
            verdicts.degraded("warmup", (*pool.path, "warmup"), reason, HAPROXY)
        _queue(fleet, pool, verdicts)
        _passive(fleet, pool, verdicts)
        _retries(fleet, pool, verdicts)


def _queue(fleet: Fleet, pool: Pool, verdicts: Verdicts) -> None:
    path = (*pool.path, "queue")
    if pool.queue.order != "fifo":
        verdicts.refused("queue.order", (*path, "order"), "needs a queue, and NGINX has none", HAPROXY)
    elif any(_written(fleet, pool, "queue", key) for key in ("size", "timeout")):
        reason = "has no effect: NGINX has no queue; a request that finds every server full gets 503 at once"
        verdicts.degraded("queue", path, reason, HAPROXY)


def _passive(fleet: Fleet, pool: Pool, verdicts: Verdicts) -> None:
    passive = pool.passive_health
    path = (*pool.path, "passive_health")
    if (
        passive.failures
        and passive.eject != passive.window
        and _written(fleet, pool, "passive_health", "eject")
    ):
        reason = (
            "is the window on NGINX: fail_timeout is both the time in which failures count and the time out"
        )
        verdicts.degraded("passive_health.eject", (*path, "eject"), reason, "write the same time for both")


def _retries(fleet: Fleet, pool: Pool, verdicts: Verdicts) -> None:
    path = (*pool.path, "retry")
    retry = pool.retry
    if retry.replay_posts and "reset" not in retry.on and set(retry.on) - {"connect"}:
        reason = "also replays a POST after a reset connection: NGINX does not tell them apart"
        verdicts.degraded("retry.replay_posts", (*path, "replay_posts"), reason, "add reset to retry.on")
    if retry.attempts and retry.on and "connect" not in retry.on and _written(fleet, pool, "retry", "on"):
        reason = "retries refused connections too: NGINX does not tell them apart"
        verdicts.degraded("retry.on", (*path, "on"), reason, "add connect to retry.on")


def _timers(fleet: Fleet, verdicts: Verdicts) -> None:
    for pool in fleet.pools:
        waits = pool.timeouts
        written = [key for key in ("first_byte", "idle") if _written(fleet, pool, "timeouts", key)]
        if written and waits.first_byte != waits.idle:
            shorter = min(written, key=lambda key: getattr(waits, key))
            if getattr(waits, shorter) < read_timeout(waits):
                larger = format_duration(read_timeout(waits))
                reason = f"becomes {larger}: one timer serves first_byte and idle, the larger of the two"
                path = (*pool.path, "timeouts", shorter)
                verdicts.degraded(f"timeouts.{shorter}", path, reason, "write the same time for both")


def _names(fleet: Fleet, verdicts: Verdicts) -> None:
    settings = fleet.target("nginx")
    for pool in fleet.pools:
        if pool.dns.mode == "runtime" and not has(settings.version, "resolve"):
            needed = FEATURES["resolve"]
            reason = f"'runtime' needs NGINX {needed.since}, which looks names up while it runs"
            verdicts.refused("dns.mode", (*pool.path, "dns", "mode"), reason, needed.instead)


def _written(fleet: Fleet, pool: Pool, *keys: str) -> bool:
    """Tell whether a value or, above it, a whole mapping was written."""
    return fleet.origins.written((*pool.path, *keys))


RULES: tuple[Rule, ...] = (_strategy, _protection, _timers, _names)
