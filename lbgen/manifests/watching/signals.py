"""What is recorded of a fleet: what its balancer tells, and its engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import ENGINES
from lbgen.strategies.prefix import prefix_of
from lbgen.targets.registry import TARGETS
from lbgen.targets.telling import (
    ANSWER,
    BY_POOL,
    BY_SERVER,
    CAP,
    DECISIONS,
    FIRST_TOKEN,
    KV_USAGE,
    MEANINGS,
    OF_ENGINES,
    PREFIX_HITS,
    QUANTILES,
    RUNNING,
    WAITING,
    Recording,
    first,
    series,
    told_by,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lbgen.engines import Metrics
    from lbgen.manifests.order import Order
    from lbgen.model import Fleet


def recordings(order: Order) -> tuple[Recording, ...]:
    """Return the recording rules for one target of a fleet, in an order in which each finds what it reads."""
    merged: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for rule in (*_engines(order.fleet), *told_by(order.target).recordings(order.fleet)):
        merged.setdefault((rule.record, tuple(rule.labels.items())), []).append(rule.expr)
    # Each has other servers; promtool wants one rule for a series.
    return tuple(Recording(name, " or ".join(each), dict(labels)) for (name, labels), each in merged.items())


def untold(order: Order) -> Iterator[str]:
    """Yield what is not recorded because neither the balancer nor the engines tell it, one sentence each."""
    told = {rule.record for rule in recordings(order)}
    title = TARGETS[order.target].title
    capped = any(pool.cap(server) for pool in order.fleet.pools for server in pool.servers)
    homes = any(map(prefix_of, order.fleet.pools))
    told |= set(OF_ENGINES) | (set() if capped else {CAP}) | (set() if homes else {DECISIONS})
    missing = [MEANINGS[name] for name in MEANINGS if name not in told]
    if missing:
        yield f"{title} does not tell: {'; '.join(missing)}. Its access log does, request by request."
    for name in dict.fromkeys(pool.engine for pool in order.fleet.pools):
        engine = ENGINES[name]
        pools = ", ".join(pool.name for pool in order.fleet.pools if pool.engine == name)
        lacking = [MEANINGS[one] for one in OF_ENGINES if not _tells(engine.metrics, one)]
        if engine.metrics is None:
            yield f"Pool {pools}: no metrics of {engine.title} are known to lbgen."
        elif lacking:
            yield f"Pool {pools}: {engine.title} does not tell: {'; '.join(lacking)}."


def _tells(metrics: Metrics | None, name: str) -> bool:
    return metrics is not None and bool(_NAMES[name](metrics))


_NAMES: Mapping[str, Callable[[Metrics], tuple[str, ...]]] = {
    RUNNING: lambda metrics: metrics.running,
    WAITING: lambda metrics: metrics.waiting,
    KV_USAGE: lambda metrics: metrics.kv_usage,
    FIRST_TOKEN: lambda metrics: metrics.first_token,
    ANSWER: lambda metrics: metrics.answer,
    PREFIX_HITS: lambda metrics: metrics.found,
}


def _engines(fleet: Fleet) -> Iterator[Recording]:
    for name in dict.fromkeys(pool.engine for pool in fleet.pools):
        metrics = ENGINES[name].metrics
        if metrics is not None:
            yield from _engine(fleet, metrics)


def _engine(fleet: Fleet, metrics: Metrics) -> Iterator[Recording]:
    for record, combine in ((RUNNING, "sum"), (WAITING, "sum"), (KV_USAGE, "max")):
        names = _NAMES[record](metrics)
        if names:
            yield Recording(record, first(f"{combine} by ({BY_SERVER}) ({{}})", fleet, names))
    for record in (FIRST_TOKEN, ANSWER):
        names = tuple(f"{name}_bucket" for name in _NAMES[record](metrics))
        for quantile in QUANTILES if names else ():
            rate = f"histogram_quantile({quantile}, sum by ({BY_POOL}, le) (rate({{}}[5m])))"
            yield Recording(record, first(rate, fleet, names), {"quantile": quantile})
    rate = f"sum by ({BY_POOL}) (rate({{}}[5m]))"
    ratios = [
        f"{rate.format(series(fleet, found))} / {rate.format(series(fleet, looked_up))}"
        for found, looked_up in zip(metrics.found, metrics.looked_up, strict=not metrics.missed)
    ]
    for found, missed in zip(metrics.found, metrics.missed, strict=False):
        there, not_there = (rate.format(series(fleet, name)) for name in (found, missed))
        ratios.append(f"{there} / ({there} + {not_there})")
    if ratios:
        yield Recording(PREFIX_HITS, " or ".join(ratios))
