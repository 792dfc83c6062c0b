"""When requests arrive. Times are seconds."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

ARRIVALS = ("poisson", "bursty", "ramp", "even")
BURST_SHAPE = 0.25
"""Gamma-distributed gaps of this shape vary twice as much as Poisson's (coefficient of variation 2)."""
RAMP = (0.5, 1.5)
"""A ramp begins with this share of the rate and ends with that, so that its mean is the rate."""


def arrivals(kind: str, dice: Random, rate_per_s: float, count: int) -> Iterator[float]:
    """Yield so many times, ascending, from 0 on; raises `ValueError` for an unknown kind."""
    if kind not in ARRIVALS:
        raise ValueError(f"'{kind}' is no way to arrive: there are {', '.join(ARRIVALS)}")
    now = 0.0
    for index in range(count):
        if kind == "poisson":
            now += dice.expovariate(rate_per_s)
        elif kind == "bursty":
            now += dice.gammavariate(BURST_SHAPE, 1 / (BURST_SHAPE * rate_per_s))
        elif kind == "even":
            now += 1 / rate_per_s
        else:
            now += dice.expovariate(rate_per_s * _share_of_ramp(index / count))
        yield now


def _share_of_ramp(done: float) -> float:
    """Return the rate, as a share of its mean, when this share of all requests has arrived.

    The rate grows evenly in time from a to b; after the share d of requests it is sqrt(a² + d (b² - a²)).
    """
    low, high = RAMP
    return sqrt(low * low + done * (high * high - low * low))
