"""How fast a trial's clock may run, so that this machine holds it."""

from __future__ import annotations

WALL_S = 12.0
"""What one run should take."""
PER_CORE = 30.0
"""Requests a second of the wall clock that a core carries with driver, balancer and mocks on it; half of what
was seen on 2 cores, so that latencies stay the engines' own."""
FASTEST, SLOWEST = 40.0, 0.05
LEAST_STEP_S = 0.0005
"""A decode step should not be shorter on the wall clock: timers and the loop cost about a tenth of that."""


def choose(duration_s: float, rate_per_s: float, step_s: float, cores: int) -> float:
    """Return virtual seconds in a second.

    For a run of `duration_s` virtual seconds with `rate_per_s` a virtual second and steps of `step_s`.
    """
    wanted = max(1.0, duration_s / WALL_S)
    carried = PER_CORE * cores / rate_per_s
    exact = step_s / LEAST_STEP_S
    return max(SLOWEST, min(FASTEST, wanted, carried, exact))
