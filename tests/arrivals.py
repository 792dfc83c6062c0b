"""When requests come that are not the simulator's, for the load driver."""

from __future__ import annotations

import random

from lbgen.lab.load import Planned


def bimodal(seed: int, rate_per_s: float, count: int, speed: float = 1.0) -> list[Planned]:
    """Return Poisson arrivals, 70 % of 20-100 and 30 % of 500-2000 output tokens.

    `rate_per_s` is per virtual second; `speed` virtual seconds pass in a second.
    """
    dice = random.Random(seed)
    now, planned = 0.0, []
    for _ in range(count):
        now += dice.expovariate(rate_per_s)
        tokens = dice.randint(20, 100) if dice.random() < 0.7 else dice.randint(500, 2000)
        planned.append(Planned(now / speed, tokens))
    return planned
