"""Charts as numbers for a template: curves on a grid, in the units of `lbgen.simulate.answers.axes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.simulate.answers.axes import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    Axis,
    Tick,
    decades,
    from_zero,
)
from lbgen.simulate.answers.looks import SHADES, Shown, server_looks, shown, widths
from lbgen.simulate.runs.result import seconds
from lbgen.simulate.runs.statistics import interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lbgen.simulate.answers.study import Answer
    from lbgen.simulate.runs.result import Figures
    from lbgen.simulate.runs.statistics import Interval

MOST_SERVERS = 2 * SHADES
"""Servers with a line each; of more, the fullest, the average and the emptiest are shown."""
DISTRIBUTIONS = {"ttft": "Time to first token", "e2e": "Time of the whole answer"}
RANKS = (*(n / 20 for n in range(1, 20)), 0.99)
"""Shares at which a distribution tells its values."""
MARKED = (0.5, 0.99)


class Curve(NamedTuple):
    """One line; points are ``x,y x,y ...``."""

    name: str
    style: str
    points: str
    dots: Sequence[tuple[float, float]] = ()
    width: float = 1.8
    whiskers: Sequence[tuple[float, float, float]] = ()
    """Intervals: where across, from which height to which."""


class Band(NamedTuple):
    """A part of the chart that tells its values when the mouse is over it."""

    x: float
    y: float
    width: float
    height: float
    text: str


class Chart(NamedTuple):
    """Curves on a grid."""

    kind: str
    title: str
    caption: str
    x_title: str
    y_title: str
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    curves: Sequence[Curve]
    bands: Sequence[Band] = ()
    style: str = ""
    """Of the strategy that it is about, when it is about one."""
    height: float = HEIGHT


def distribution(found: Answer, metric: str) -> Chart | None:
    """Return the distributions of a metric; None when no request was answered."""
    return distributions(shown(found.rows), metric)


def distributions(rows: Sequence[Shown], metric: str) -> Chart | None:
    """Return the distributions of a metric in some rows; None when no request was answered."""
    lines = [_average([run.curves[metric] for run in one.row.runs if run.curves.get(metric)]) for one in rows]
    across = decades([value for line in lines for value in line], LEFT, RIGHT)
    if across is None:
        return None
    up = Axis(0, 1, BOTTOM, TOP)
    curves = [
        _curve(
            one.name,
            one.style,
            [(across.place(value), up.place((rank + 0.5) / len(line))) for rank, value in enumerate(line)],
            width,
        )._replace(dots=[(across.place(_at(line, share)), up.place(share)) for share in MARKED if line])
        for one, line, width in zip(rows, lines, widths(len(rows)), strict=True)
    ]
    step = (BOTTOM - TOP) / 20
    bands = [
        Band(LEFT, up.place(share) - step / 2, RIGHT - LEFT, step, _told(
            f"P{100 * share:.0f}", ((one.name, seconds(_at(line, share)))
                                    for one, line in zip(rows, lines, strict=True) if line)))
        for share in RANKS
    ]  # fmt: skip
    return Chart(
        kind=metric,
        title=DISTRIBUTIONS[metric],
        caption="Dots: P50 and P99.",
        x_title="seconds, logarithmic",
        y_title="share of requests within",
        x_ticks=across.ticks(),
        y_ticks=[Tick(up.place(share), f"{100 * share:.0f} %") for share in (0, 0.25, 0.5, 0.75, 0.99)],
        curves=curves,
        bands=bands,
    )


def against_load(answers: Sequence[Answer], metric: str) -> Chart | None:
    """Return the 99th percentile of a metric over the loads; None without two loads or without values."""
    lines: dict[str, list[tuple[float, Interval]]] = {}
    styles = {}
    for found in sorted(answers, key=lambda one: one.load):
        for one in shown(found.rows):
            styles[one.name] = one.style
            values = [getattr(run, f"{metric}_s").p99 for run in one.row.runs]
            known = [value for value in values if value is not None]
            if known:
                lines.setdefault(one.name, []).append((found.load, interval(known)))
    chart = _over_numbers(
        [(name, styles[name], line) for name, line in lines.items()], [found.load for found in answers]
    )
    return chart and chart._replace(
        kind=f"{metric}-load",
        title=f"{DISTRIBUTIONS[metric]}, P99, against load",
        caption="Load 1: all that the servers can carry. Vertical lines: 95 % intervals over the seeds.",
        x_title="load",
        y_title="P99, logarithmic",
    )


def against_servers(
    title: str,
    metric: str,
    lines: Mapping[str, tuple[str, Sequence[tuple[float, Interval]]]],
    limit: float,
    *,
    counted: bool,
) -> Chart | None:
    """Return a metric over numbers of servers, by name: classes and values.

    `limit`: the objective; `counted`: the values are not seconds.
    """
    numbers = [x for _, line in lines.values() for x, _ in line]
    chart = _over_numbers(
        [(name, style, line) for name, (style, line) in lines.items()], numbers, limit, counted=counted
    )
    return chart and chart._replace(
        kind="servers",
        title=title,
        caption="Vertical lines: 95 % intervals over the seeds.",
        x_title="servers",
        y_title=f"{metric}, logarithmic",
        x_ticks=[tick for tick in chart.x_ticks if float(tick.text).is_integer()],
    )


def _over_numbers(
    lines: Iterable[tuple[str, str, Sequence[tuple[float, Interval]]]],
    numbers: Sequence[float],
    limit: float | None = None,
    *,
    counted: bool = False,
) -> Chart | None:
    """Return lines over a number; None where there are no values, or only one number."""
    lines = list(lines)
    limits = [] if limit is None else [limit]
    up = decades(
        [value + (half or 0.0) for *_, line in lines for _, (value, half) in line]
        + [value for *_, line in lines for _, (value, _) in line] + limits, BOTTOM, TOP,
    )  # fmt: skip
    up = up and up._replace(counted=counted)
    if up is None or max(numbers, default=0.0) <= min(numbers, default=0.0):
        return None
    across = Axis(min(numbers), max(numbers), LEFT, RIGHT)
    curves = []
    for (name, style, line), width in zip(lines, widths(len(lines)), strict=True):
        points = [(across.place(x), up.place(one.mean)) for x, one in line]
        whiskers = [
            (across.place(x), up.place(mean - half), up.place(mean + half))
            for x, (mean, half) in line
            if half
        ]
        curves.append(_curve(name, style, points, width)._replace(dots=points, whiskers=whiskers))
    for one in limits:
        ends = [(LEFT, up.place(one)), (RIGHT, up.place(one))]
        curves.append(_curve("objective", "limit", ends))
    told: dict[float, list[tuple[str, str]]] = {}
    for name, _, line in lines:
        for x, value in line:
            told.setdefault(x, []).append((name, with_interval(value, counted=counted)))
    bands = [
        Band(across.place(x) - 8, TOP, 16, BOTTOM - TOP, _told(f"at {x:.4g}", values))
        for x, values in told.items()
    ]
    return Chart("", "", "", "", "", across.ticks(), up.ticks(), curves, bands)


def over_time(found: Answer) -> list[Chart]:
    """Return a chart for each row: the requests in flight at each server over the first seed's run."""
    return rows_over_time(shown(found.rows))


def rows_over_time(rows: Sequence[Shown]) -> list[Chart]:
    """Return the same for rows with looks of one's own; all on one scale."""
    having = [(one, one.row.runs[0]) for one in rows if one.row.runs[0].in_flight]
    most = max((value for _, run in having for line in run.in_flight for value in line), default=0.0)
    up = from_zero(most, BOTTOM, TOP)
    return [_run_over_time(one, run, up) for one, run in having]


def _run_over_time(one: Shown, run: Figures, up: Axis) -> Chart:
    lines = _few([(server.name, line) for server, line in zip(run.servers, run.in_flight, strict=True)])
    across = Axis(0, max(run.duration_s, 1e-9), LEFT, RIGHT)
    step = across.high / len(lines[0][1])
    curves = []
    for number, (name, line) in enumerate(lines):
        points = [(across.place((n + 0.5) * step), up.place(value)) for n, value in enumerate(line)]
        curves.append(_curve(name, server_looks(number, len(lines)), points))
    bands = [
        Band(across.place(n * step), TOP, round((RIGHT - LEFT) / len(lines[0][1]), 2), BOTTOM - TOP, _told(
            f"at {(n + 0.5) * step:.0f} s", ((name, f"{line[n]:.1f}") for name, line in lines)))
        for n in range(len(lines[0][1]))
    ]  # fmt: skip
    return Chart(
        kind="over-time",
        title=one.name,
        caption="Each line is a server; first seed.",
        x_title="seconds",
        y_title="requests in flight",
        x_ticks=across.ticks(),
        y_ticks=up.ticks(),
        curves=curves,
        bands=bands,
        style=one.style,
    )


def with_interval(value: Interval, *, counted: bool = False) -> str:
    """Return seconds, or a number, with half of the 95 % interval."""
    return " ± ".join(f"{one:.3g}" if counted else seconds(one) for one in value if one is not None)


def _few(lines: list[tuple[str, Sequence[float]]]) -> list[tuple[str, Sequence[float]]]:
    if len(lines) <= MOST_SERVERS:
        return lines
    moments = list(zip(*(line for _, line in lines), strict=True))
    return [
        ("the fullest", [max(values) for values in moments]),
        ("average", [sum(values) / len(values) for values in moments]),
        ("the emptiest", [min(values) for values in moments]),
    ]


def _curve(name: str, style: str, points: Sequence[tuple[float, float]], width: float = 1.8) -> Curve:
    return Curve(name, style, " ".join(f"{x:g},{y:g}" for x, y in points), width=round(width, 1))


def _told(head: str, values: Iterable[tuple[str, str]]) -> str:
    return "\n".join([head, *(f"{name}: {value}" for name, value in values)])


def _at(line: Sequence[float], share: float) -> float:
    return line[min(int(share * len(line)), len(line) - 1)]


def _average(curves: Sequence[Sequence[float]]) -> list[float]:
    return [sum(values) / len(values) for values in zip(*curves, strict=True)]
