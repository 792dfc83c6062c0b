"""An answer as one self-contained page: no script, no network, light and dark, fit for paper."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import TYPE_CHECKING, NamedTuple

import jinja2

from lbgen import __version__
from lbgen.simulate.conclusion import against, conclusion, headline
from lbgen.simulate.result import combined
from lbgen.simulate.text import columns, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lbgen.simulate.result import Row
    from lbgen.simulate.study import Answer

LEFT, RIGHT, TOP, BOTTOM = 50, 710, 10, 260
COLORS = 7
TITLES = {"ttft": "Time to first token", "e2e": "Time of the whole answer"}


class Tick(NamedTuple):
    """A line of the grid."""

    at: int
    text: str


class Curve(NamedTuple):
    """One strategy's line."""

    name: str
    color: int
    points: str


class Chart(NamedTuple):
    """Curves on a grid."""

    title: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    curves: list[Curve]


class Bar(NamedTuple):
    """Requests in flight at one server under one strategy."""

    color: int
    width: int
    text: str


class ServerBars(NamedTuple):
    """One server under all strategies."""

    name: str
    bars: list[Bar]


def page(found: Answer, templates: Path) -> str:
    """Return the page; `templates` is the folder of the built-in ones."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    header, rows = columns(found)
    return environment.get_template("report/simulate.html.j2").render(
        pool=found.question.pool.name,
        headline=headline(found),
        conclusion=conclusion(found),
        header=header,
        rows=rows,
        differences=against(found),
        charts=[chart for name in TITLES if (chart := _chart(found, name)) is not None],
        names=[_name(row) for row in found.rows],
        servers=_servers(found),
        version=__version__,
    )


def _name(row: Row) -> str:
    return f"{row.strategy} on {row.target}" if row.target else row.strategy


def _chart(found: Answer, metric: str) -> Chart | None:
    """Return the distributions of a metric; None when no request was answered."""
    lines = [(_name(row), _average([run.curves[metric] for run in row.runs])) for row in found.rows]
    values = [value for _, line in lines for value in line if value > 0]
    if not values:
        return None
    low, high = floor(log10(min(values))), ceil(log10(max(values)) + 1e-9)

    def across(value: float) -> float:
        share = (log10(max(value, 10.0**low)) - low) / max(1, high - low)
        return LEFT + share * (RIGHT - LEFT)

    curves = [
        Curve(name, number % COLORS, " ".join(_points(line, across)))
        for number, (name, line) in enumerate(lines)
    ]
    x_ticks = [Tick(round(across(10.0**power)), seconds(10.0**power)) for power in range(low, high + 1)]
    y_ticks = [Tick(round(_up(share / 4)), f"{25 * share} %") for share in range(5)]
    return Chart(TITLES[metric], x_ticks, y_ticks, curves)


def _points(line: Sequence[float], across: Callable[[float], float]) -> list[str]:
    return [f"{across(value):.1f},{_up((rank + 0.5) / len(line)):.1f}" for rank, value in enumerate(line)]


def _up(share: float) -> float:
    return BOTTOM - share * (BOTTOM - TOP)


def _average(curves: Sequence[Sequence[float]]) -> list[float]:
    filled = [curve for curve in curves if curve]
    return [sum(values) / len(values) for values in zip(*filled, strict=True)]


def _servers(found: Answer) -> list[ServerBars]:
    wholes = [combined(row.runs).servers for row in found.rows]
    most = max((one.mean_in_flight for servers in wholes for one in servers), default=0.0) or 1.0
    return [
        ServerBars(
            servers[0].name,
            [
                Bar(number % COLORS, round(100 * one.mean_in_flight / most), f"{one.mean_in_flight:.1f}")
                for number, one in enumerate(servers)
            ],
        )
        for servers in zip(*wholes, strict=True)
    ]
