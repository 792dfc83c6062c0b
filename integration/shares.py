"""How requests in flight were spread over servers, from what the mocks remember."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Spread(NamedTuple):
    """Time averages over a stretch of a run."""

    range: float
    """Of the difference between the busiest and the idlest server."""
    means: tuple[float, ...]
    """Of the requests in flight, by server."""


def spread(series: Sequence[Sequence[tuple[float, int]]], begin: float, end: float) -> Spread:
    """Return the time averages between two moments, for one series of changes per server."""
    changes = heapq.merge(
        *([(when, index, count) for when, count in one] for index, one in enumerate(series)),
        [(end, 0, 0)],
    )
    now = [0] * len(series)
    last, weighted_range, weighted = begin, 0.0, [0.0] * len(series)
    for when, index, count in changes:
        lasted = min(when, end) - last
        if lasted > 0:
            weighted_range += lasted * (max(now) - min(now))
            weighted = [sum_ + lasted * count_ for sum_, count_ in zip(weighted, now, strict=True)]
            last = min(when, end)
        if when >= end:
            break
        now[index] = count
    return Spread(weighted_range / (end - begin), tuple(sum_ / (end - begin) for sum_ in weighted))
