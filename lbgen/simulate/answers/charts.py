"""Charts as numbers for a template: curves on a grid, in the units of an SVG of 360 x 230."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import TYPE_CHECKING, NamedTuple

from lbgen.simulate.runs.result import combined, row_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.simulate.answers.study import Answer
    from lbgen.simulate.runs.result import Figures, Row

WIDTH, HEIGHT = 360, 230
LEFT, RIGHT, TOP, BOTTOM = 46, 344, 8, 196
COLORS = 7
MOST_SERVERS = 2 * COLORS
"""Servers with a line each; of more, the fullest, the average and the emptiest are shown."""
DISTRIBUTIONS = {"ttft": "Time to first token", "e2e": "Time of the whole answer"}


class Tick(NamedTuple):
    """A line of the grid."""

    at: float
    text: str


class Curve(NamedTuple):
    """One line; points are ``x,y x,y ...``."""

    name: str
    number: int
    points: str
    dots: list[tuple[float, float]]
    faint: bool = False
    """It is only there to be compared with."""

    @property
    def style(self) -> str:
        """The classes that give it a colour and, when faint and from the eighth on, dashes."""
        return f"s{self.number % COLORS}" + (" dashed" if self.faint or self.number >= COLORS else "")


class Chart(NamedTuple):
    """Curves on a grid."""

    kind: str
    title: str
    caption: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    curves: list[Curve]


class Axis(NamedTuple):
    """From values to places."""

    low: float
    high: float
    begin: float
    end: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Return where a value is; what is below the axis is at its beginning."""
        low, high, value = self.low, self.high, max(value, self.low)
        if self.logarithmic:
            low, high, value = log10(low), log10(high), log10(value)
        return round(self.begin + (value - low) / (high - low) * (self.end - self.begin), 1)

    def ticks(self) -> list[Tick]:
        """Return a few round numbers."""
        if self.logarithmic:
            return [Tick(self.place(value), _short(value)) for value in _round_values(self.low, self.high)]
        step = _round_step(self.high - self.low)
        first = ceil(self.low / step - 1e-9)
        values = [step * number for number in range(first, floor(self.high / step + 1e-9) + 1)]
        return [Tick(self.place(value), f"{value:.6g}") for value in values]


class Shown(NamedTuple):
    """A row as a chart shows it."""

    name: str
    row: Row
    number: int
    """Of its colour."""
    faint: bool = False


def distribution(found: Answer, metric: str) -> Chart | None:
    """Return the distributions of a metric; None when no request was answered."""
    return distributions([Shown(row_name(row), row, n) for n, row in enumerate(found.rows)], metric)


def distributions(shown: Sequence[Shown], metric: str) -> Chart | None:
    """Return the distributions of a metric in some rows; None when no request was answered."""
    lines = [
        _average([run.curves[metric] for run in one.row.runs if run.curves.get(metric)]) for one in shown
    ]
    across = _decades([value for line in lines for value in line], LEFT, RIGHT)
    if across is None:
        return None
    up = Axis(0, 1, BOTTOM, TOP)
    curves = [
        _curve(
            one.name,
            one.number,
            [(across.place(value), up.place((rank + 0.5) / len(line))) for rank, value in enumerate(line)],
        )._replace(faint=one.faint)
        for one, line in zip(shown, lines, strict=True)
    ]
    y_ticks = [Tick(up.place(share / 4), f"{25 * share} %") for share in range(5)]
    caption = "Share of requests that took at most so long; logarithmic scale."
    return Chart(metric, DISTRIBUTIONS[metric], caption, across.ticks(), y_ticks, curves)


def against_load(answers: Sequence[Answer], metric: str) -> Chart | None:
    """Return the 99th percentile of a metric over the loads; None without two loads or without values."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for found in sorted(answers, key=lambda one: one.load):
        for row in found.rows:
            value = getattr(combined(row.runs), f"{metric}_s").p99
            if value is not None:
                lines.setdefault(row_name(row), []).append((found.load, value))
    loads = [found.load for found in answers]
    up = _decades([value for line in lines.values() for _, value in line], BOTTOM, TOP)
    if up is None or max(loads) <= min(loads):
        return None
    across = Axis(min(loads), max(loads), LEFT, RIGHT)
    curves = [
        _curve(name, number, [(across.place(load), up.place(value)) for load, value in line], dotted=True)
        for number, (name, line) in enumerate(lines.items())
    ]
    caption = "99 of 100 requests took at most so long; across: the load, 1 being all that the servers carry."
    title = f"{DISTRIBUTIONS[metric]} against load"
    return Chart(f"{metric}-load", title, caption, across.ticks(), up.ticks(), curves)


def lines_of(
    kind: str, title: str, caption: str, lines: Mapping[str, Sequence[tuple[float, float]]], limit: float
) -> Chart | None:
    """Return lines over a number, such as of servers, on a logarithmic scale; the last one is a `limit`."""
    places = [x for line in lines.values() for x, _ in line]
    up = _decades([*(value for line in lines.values() for _, value in line), limit], BOTTOM, TOP)
    if up is None or not places or max(places) <= min(places):
        return None
    across = Axis(min(places), max(places), LEFT, RIGHT)
    curves = [
        _curve(name, number, [(across.place(x), up.place(value)) for x, value in line], dotted=True)
        for number, (name, line) in enumerate(lines.items())
    ]
    at = up.place(limit)
    whole = [tick for tick in across.ticks() if float(tick.text).is_integer()]
    curves.append(_curve("objective", COLORS - 1, [(LEFT, at), (RIGHT, at)])._replace(faint=True))
    return Chart(kind, title, caption, whole, up.ticks(), curves)


def over_time(found: Answer) -> list[Chart]:
    """Return a chart for each row: the requests in flight at each server over the first seed's run."""
    return rows_over_time([(row_name(row), row) for row in found.rows])


def rows_over_time(rows: Sequence[tuple[str, Row]]) -> list[Chart]:
    """Return the same for rows with names of one's own; all on one scale."""
    shown = [(name, row.runs[0]) for name, row in rows if row.runs[0].in_flight]
    most = max((value for _, run in shown for line in run.in_flight for value in line), default=0.0)
    up = Axis(0, _round_up(most or 1.0), BOTTOM, TOP)
    return [_run_over_time(name, run, up) for name, run in shown]


def _run_over_time(name_of_row: str, run: Figures, up: Axis) -> Chart:
    lines = _few([(server.name, line) for server, line in zip(run.servers, run.in_flight, strict=True)])
    across = Axis(0, max(run.duration_s, 1e-9), LEFT, RIGHT)
    curves = []
    for number, (name, line) in enumerate(lines):
        step = across.high / len(line)
        points = [(across.place((n + 0.5) * step), up.place(value)) for n, value in enumerate(line)]
        curves.append(_curve(name, number, points))
    caption = "Requests in flight at each server; across: seconds, first seed."
    return Chart("over-time", name_of_row, caption, across.ticks(), up.ticks(), curves)


def _few(lines: list[tuple[str, Sequence[float]]]) -> list[tuple[str, Sequence[float]]]:
    if len(lines) <= MOST_SERVERS:
        return lines
    moments = list(zip(*(line for _, line in lines), strict=True))
    return [
        ("the fullest", [max(values) for values in moments]),
        ("average", [sum(values) / len(values) for values in moments]),
        ("the emptiest", [min(values) for values in moments]),
    ]


def _curve(name: str, number: int, points: list[tuple[float, float]], *, dotted: bool = False) -> Curve:
    return Curve(name, number, " ".join(f"{x:g},{y:g}" for x, y in points), points if dotted else [])


def _decades(values: Sequence[float], begin: float, end: float) -> Axis | None:
    """Return a logarithmic axis for values; None when none is above 0."""
    some = [value for value in values if value > 0]
    if not some:
        return None
    low, high = _below(min(some)), _above(max(some))
    return Axis(low, high if high > low else 2 * low, begin, end, logarithmic=True)


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


def _average(curves: Sequence[Sequence[float]]) -> list[float]:
    return [sum(values) / len(values) for values in zip(*curves, strict=True)]
