"""How fast a trial's clock may run, so that this machine holds it."""

from __future__ import annotations

import asyncio
import time

from lbgen.lab import load
from lbgen.lab.mock.mock_server import MockGpu, Settings

WALL_S = 12.0
"""What one run should take."""
SHARE = 0.15
"""What a trial uses of the requests a second that were tried: the rest keeps latencies the engines' own."""
BUSY_CORES = 2
"""Driver and mocks keep a core each busy at most; further cores make no single one of them faster."""
FASTEST, SLOWEST = 40.0, 0.05
LEAST_STEP_S = 0.0005
"""A decode step should not be shorter on the wall clock: timers and the loop cost about a tenth of that."""
TRIED = 200
"""Requests by which the machine is tried; it takes about half a second."""
PARALLEL = 8


def choose(duration_s: float, rate_per_s: float, step_s: float, carried_per_s: float) -> float:
    """Return virtual seconds in a second.

    For a run of `duration_s` virtual seconds with `rate_per_s` a virtual second and steps of `step_s`, on a
    machine that carries so many requests in a second of the wall clock.
    """
    wanted = max(1.0, duration_s / WALL_S)
    exact = step_s / LEAST_STEP_S
    return max(SLOWEST, min(FASTEST, wanted, carried_per_s / rate_per_s, exact))


def carried_per_s(cores: int) -> float:
    """Return how many requests a second this machine carries, as busy as it is now."""
    return SHARE * min(cores, BUSY_CORES) * asyncio.run(_tried())


async def _tried() -> float:
    """Return the requests a second that driver and mock do together on one core."""
    mock = MockGpu(Settings(speed=1000.0))
    port = await mock.listen("127.0.0.1", 0)
    planned = [load.Planned(0.0, 20)] * TRIED
    try:
        begin = time.perf_counter()
        await load.closed(f"http://127.0.0.1:{port}", planned, PARALLEL)
        return TRIED / (time.perf_counter() - begin)
    finally:
        await mock.close()
