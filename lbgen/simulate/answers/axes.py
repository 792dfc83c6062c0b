"""Axes of charts: from values to places, and the round numbers beside them."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT = 360, 232
LEFT, RIGHT, TOP, BOTTOM = 58, 344, 8, 190
"""The units are those of an SVG of that size."""


class Tick(NamedTuple):
    """A line of the grid."""

    at: float
    text: str


class Axis(NamedTuple):
    """From values to places."""

    low: float
    high: float
    begin: float
    end: float
    logarithmic: bool = False
    counted: bool = False
    """Its values are not seconds."""

    def place(self, value: float) -> float:
        """Return where a value is; what is below the axis is at its beginning."""
        low, high, value = self.low, self.high, max(value, self.low)
        if self.logarithmic:
            low, high, value = log10(low), log10(high), log10(value)
        return round(self.begin + (value - low) / (high - low) * (self.end - self.begin), 1)

    def ticks(self) -> list[Tick]:
        """Return a few round numbers."""
        if self.logarithmic:
            text = "{:.6g}".format if self.counted else _short
            return [Tick(self.place(value), text(value)) for value in _round_values(self.low, self.high)]
        step = _round_step(self.high - self.low)
        first = ceil(self.low / step - 1e-9)
        values = [step * number for number in range(first, floor(self.high / step + 1e-9) + 1)]
        return [Tick(self.place(value), f"{value:.6g}") for value in values]


def decades(values: Sequence[float], begin: float, end: float) -> Axis | None:
    """Return a logarithmic axis for values; None when none is above 0."""
    some = [value for value in values if value > 0]
    if not some:
        return None
    low, high = _below(min(some)), _above(max(some))
    return Axis(low, high if high > low else 2 * low, begin, end, logarithmic=True)


def from_zero(most: float, begin: float, end: float) -> Axis:
    """Return an axis from 0 to a round number at or above the largest value."""
    return Axis(0, _round_up(most or 1.0), begin, end)


def _below(value: float) -> float:
    """Return the largest 1, 2 or 5 times a power of ten that is not above a value."""
    power = 10.0 ** floor(log10(value) + 1e-9)
    return max(power * factor for factor in (1, 2, 5) if power * factor <= value * (1 + 1e-9))


def _above(value: float) -> float:
    """Return the least 1, 2 or 5 times a power of ten that is not below a value."""
    power = 10.0 ** floor(log10(value) + 1e-9)
    return min(power * factor for factor in (1, 2, 5, 10) if power * factor >= value * (1 - 1e-9))


def _round_values(low: float, high: float) -> list[float]:
    """Return the powers of ten between two values; 2 and 5 times them, too, where they are near."""
    factors = (1, 2, 5) if high / low < 200 else (1,)
    powers = range(floor(log10(low) + 1e-9), ceil(log10(high) - 1e-9) + 1)
    values = [factor * 10.0**power for power in powers for factor in factors]
    return [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]


def _short(value: float) -> str:
    return f"{value * 1000:.6g} ms" if value < 0.0995 else f"{value:.6g} s"


def _round_step(span: float) -> float:
    """Return 1, 2 or 5 times a power of ten that divides a span into three to six."""
    power = 10.0 ** floor(log10(span))
    return next(power * factor for factor in (0.2, 0.5, 1, 2) if span <= 6 * power * factor * (1 + 1e-9))


def _round_up(value: float) -> float:
    step = _round_step(value)
    return step * ceil(value / step - 1e-9)
