"""Figures of many values: quantiles in bounded memory, means, and confidence intervals over seeds."""

from __future__ import annotations

from array import array
from math import exp, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

EXACT = 200_000
"""Up to so many values quantiles are exact."""
RELATIVE_ERROR = 0.002
"""Beyond, a quantile is off by at most this share of itself."""

_GROWTH = log((1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR))
_LEAST = 1e-9


class Quantiles:
    """Values from 0 on, all kept up to a number, then counted in buckets that grow by 0.4 % each."""

    __slots__ = ("_buckets", "_values", "add", "count", "total")

    def __init__(self) -> None:
        self._values = array("d")
        self._buckets: dict[int, int] = {}
        self.add = self._values.append
        """Take a value. A method of the array itself, which costs a third of one of ours; see `settle`."""
        self.count = 0
        self.total = 0.0

    def settle(self) -> None:
        """Bring `count` up to date, and memory down; to be called now and then."""
        self.count = len(self._values) + sum(self._buckets.values())
        if len(self._values) > EXACT or self._buckets:
            for value in self._values:
                key = int(log(max(value, _LEAST)) // _GROWTH)
                self._buckets[key] = self._buckets.get(key, 0) + 1
            self.total += sum(self._values)
            del self._values[:]

    def mean(self) -> float | None:
        """Return the mean, exact in any case; None without values."""
        self.settle()
        return (self.total + sum(self._values)) / self.count if self.count else None

    def at(self, *shares: float) -> list[float | None]:
        """Return the values that these shares of all do not exceed (nearest rank)."""
        self.settle()
        if not self.count:
            return [None for _ in shares]
        if not self._buckets:
            ordered = sorted(self._values)
            return [ordered[_rank(share, self.count) - 1] for share in shares]
        return [self._in_buckets(_rank(share, self.count)) for share in shares]

    def curve(self, points: int) -> list[float]:
        """Return so many values evenly spread over the ranks, for a picture of the distribution."""
        shares = [(index + 0.5) / points for index in range(points)]
        return [value for value in self.at(*shares) if value is not None]

    def _in_buckets(self, rank: int) -> float:
        passed = 0
        for key in sorted(self._buckets):
            passed += self._buckets[key]
            if passed >= rank:
                return exp((key + 0.5) * _GROWTH) if key > log(_LEAST) // _GROWTH else 0.0
        raise AssertionError("a rank beyond the count")


def _rank(share: float, count: int) -> int:
    # 1e-9: 0.99 * 100 is 99.00000000000001 in floating point, and would be the 100th.
    return min(count, max(1, -int(-(share * count - 1e-9) // 1)))


GROWTH = 0.2
"""Share of their mean that a line through the averages has to gain over the run to be called growth."""
CERTAIN = 3.355
"""Student's 99.5 % quantile for 8 degrees of freedom, as a line through ten averages has."""


def grows(averages: Sequence[float]) -> bool:
    """Tell whether ten averages of successive stretches grow, by more than chance and a little."""
    count, total = len(averages), sum(averages)
    if count < 10 or not total:
        return False
    mean, middle = total / count, (count - 1) / 2
    squares = sum((index - middle) ** 2 for index in range(count))
    slope = sum((index - middle) * value for index, value in enumerate(averages)) / squares
    rest = sum((value - mean - slope * (index - middle)) ** 2 for index, value in enumerate(averages))
    error = sqrt(rest / (count - 2) / squares)
    return slope * (count - 1) > GROWTH * mean and slope > CERTAIN * error


class Interval(NamedTuple):
    """An estimate from several runs with its 95 % confidence interval."""

    mean: float
    half_width: float | None
    """None: one run tells nothing of its own uncertainty."""

    @property
    def certain(self) -> bool:
        """True when 0 is outside: a difference is then significant."""
        return self.half_width is not None and abs(self.mean) > self.half_width


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of independent runs with Student's interval; raises `ValueError` without values."""
    count = len(values)
    if not count:
        raise ValueError("no values")
    mean = sum(values) / count
    if count == 1:
        return Interval(mean, None)
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    return Interval(mean, student(count - 1) * deviation / sqrt(count))


def student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t; within 0.2 % of the tables."""
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    return 1.959964 + 2.3723 / freedom + 2.83 / freedom**2


_STUDENT = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)
