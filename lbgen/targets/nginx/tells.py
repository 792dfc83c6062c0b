"""What NGINX says, which is little: servers and pools are as their engines tell of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import ENGINES
from lbgen.targets.telling import (
    ALIVE,
    BY_POOL,
    BY_SERVER,
    CONNECTIONS,
    DRAINED,
    IN_FLIGHT,
    OUT,
    QUEUE,
    REQUESTS,
    RUNNING,
    WAITING,
    Recording,
    Told,
    caps,
    first,
    series,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet


def _recordings(fleet: Fleet) -> Iterator[Recording]:
    """Yield what `stub_status` tells; servers and pools as their engines tell of them."""
    told = {name: ENGINES[name].metrics for name in dict.fromkeys(pool.engine for pool in fleet.pools)}
    known = [metrics for metrics in told.values() if metrics is not None]
    if any(metrics.running and metrics.waiting for metrics in known):
        yield Recording(IN_FLIGHT, " + ".join(series(fleet, name) for name in (RUNNING, WAITING)))
    if any(metrics.waiting for metrics in known):
        yield Recording(QUEUE, f"sum by ({BY_POOL}) ({series(fleet, WAITING)})")
    for metrics in known:
        if metrics.finished:
            expr = first(f"sum by ({BY_SERVER}) (rate({{}}[5m]))", fleet, metrics.finished)
            yield Recording(REQUESTS, expr)
    if known:
        engine = 'role="engine"'
        up, used = series(fleet, "up", engine), series(fleet, "up", engine, 'state=""')
        unused = series(fleet, "up", engine, 'state!=""')
        yield Recording(OUT, f"1 - max by ({BY_SERVER}) ({up})")
        yield Recording(DRAINED, f"max by ({BY_SERVER}) ({unused} >= bool 0)")
        yield Recording(ALIVE, f"sum by ({BY_POOL}) ({used})")
        for pool in fleet.pools:
            if told[pool.engine] is not None:
                yield from caps(fleet, pool, "up", engine)
    active = series(fleet, "nginx_connections_active")
    yield Recording(CONNECTIONS, f"sum by (fleet, instance) ({active})")


TELLS = Told(_recordings)
