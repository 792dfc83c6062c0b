"""The least whole number that meets a condition, found from a guess: a few steps where the guess is good."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def least(met: Callable[[int], bool], guess: int, low: int, high: int, tolerance: float = 0.0) -> int | None:
    """Return the least number from `low` to `high` that meets a condition; None: not even `high` does.

    The condition has to hold for all numbers above one that meets it. Steps double from the guess on until it
    lies between two, which then are halved, until they differ by a `tolerance`, a share of the greater one.
    """
    here, step = min(max(guess, low), high), 1
    if met(here):
        above = here  # the least that is known to meet it
        while above > low:
            here = max(low, above - step)
            if not met(here):
                return _between(met, here, above, tolerance)
            above, step = here, 2 * step
        return above
    below = here
    while below < high:
        here = min(high, below + step)
        if met(here):
            return _between(met, below, here, tolerance)
        below, step = here, 2 * step
    return None


def _between(met: Callable[[int], bool], below: int, above: int, tolerance: float) -> int:
    while above - below > max(1, int(above * tolerance)):
        middle = (below + above) // 2
        if met(middle):
            above = middle
        else:
            below = middle
    return above
