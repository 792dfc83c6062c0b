"""Bars with their 95 % intervals: the figures that decide, at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.simulate.answers.axes import Axis, Tick, from_zero
from lbgen.simulate.answers.charts import with_interval
from lbgen.simulate.runs.statistics import Interval, interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.simulate.answers.looks import Shown

BEGIN, END = 2, 340
LINE, HEAD, FOOT = 30, 16, 38
"""Height of a bar with its name above it; where the first name stands; room for the axis."""
DECIDING = {"ttft": "First token, P99", "e2e": "Whole answer, P99"}


class Bar(NamedTuple):
    """One bar."""

    name: str
    text: str
    """Its value."""
    style: str
    y: int
    """Of its upper edge."""
    end: float
    low: float
    high: float
    """Ends of its interval; the same where there is none."""


class Bars(NamedTuple):
    """Bars below each other on one axis."""

    kind: str
    title: str
    x_title: str
    bars: Sequence[Bar]
    ticks: Sequence[Tick]
    bottom: int
    height: int


class Value(NamedTuple):
    """What a bar stands for."""

    name: str
    text: str
    style: str
    mean: float
    low: float
    high: float


def bars(kind: str, title: str, x_title: str, values: Sequence[Value]) -> Bars | None:
    """Return bars from 0; None without values."""
    if not values:
        return None
    across = from_zero(max(one.high for one in values), BEGIN, END)
    bottom = HEAD + LINE * len(values) - 8
    drawn = [_bar(one, across, HEAD + LINE * number + 4) for number, one in enumerate(values)]
    return Bars(kind, title, x_title, drawn, across.ticks(), bottom, bottom + FOOT)


def latencies(rows: Sequence[Shown]) -> list[Bars]:
    """Return the P99 of first tokens and of whole answers of each row."""
    several = any(len(one.row.runs) > 1 for one in rows)
    axis = "seconds; line: 95 % interval over the seeds" if several else "seconds; one seed, no interval"
    found = (bars(f"{metric}-bars", title, axis, _values(rows, metric)) for metric, title in DECIDING.items())
    return [one for one in found if one is not None]


def _values(rows: Sequence[Shown], metric: str) -> list[Value]:
    found = []
    for one in rows:
        values = [getattr(run, f"{metric}_s").p99 for run in one.row.runs]
        known = [value for value in values if value is not None]
        if known:
            mean, half = told = interval(known)
            low, high = max(0.0, mean - (half or 0.0)), mean + (half or 0.0)
            found.append(Value(one.name, with_interval(Interval(*told)), one.style, mean, low, high))
    return found


def _bar(one: Value, across: Axis, y: int) -> Bar:
    return Bar(one.name, one.text, one.style, y, *map(across.place, (one.mean, one.low, one.high)))
