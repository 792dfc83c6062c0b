"""An answer as one picture: an SVG that stands alone, fit for a README, light and dark."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

import jinja2

from lbgen.simulate.answers.axes import BOTTOM, LEFT, RIGHT, TOP, WIDTH
from lbgen.simulate.answers.charts import (
    DISTRIBUTIONS,
    Chart,
    Curve,
    against_load,
    distribution,
    over_time,
)
from lbgen.simulate.answers.conclusion import headline
from lbgen.simulate.answers.looks import COLORS, SHADES
from lbgen.simulate.runs.result import combined, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from lbgen.simulate.answers.study import Answer
    from lbgen.simulate.runs.result import Row

HEAD = 50
"""Height of a panel's title and words."""
LEGEND_LINE, LEGEND_WIDTH = 16, 100
LETTER = 6
"""Width of a letter, about."""
LETTERS = 62
"""Letters of the headline that fit below each of several panels."""
ALONE = 50
"""And below one that stands alone, whose margin counts."""


class Entry(NamedTuple):
    """A curve's name, and where it stands below the chart."""

    curve: Curve
    x: int
    y: int


class Panel(NamedTuple):
    """One chart with what is said above it."""

    x: int
    chart: Chart
    words: str
    legend: list[Entry]


def picture(answers: Sequence[Answer], templates: Path) -> str:
    """Return the picture: latency against load, or for one load the requests in flight over time."""
    said = [headline(answers[0])] if len(answers) == 1 else []
    title = f"Strategies for the pool {answers[0].question.pool.name}, predicted"
    return drawn(title, _charts(answers), said, templates)


def drawn(title: str, charts: Iterable[tuple[Chart, str]], said: Sequence[str], templates: Path) -> str:
    """Return a picture of charts side by side, each with words below its title, and lines at the foot."""
    panels = [
        Panel(number * WIDTH, chart, words, _legend(chart)) for number, (chart, words) in enumerate(charts)
    ]
    legends = max((entry.y for panel in panels for entry in panel.legend), default=BOTTOM + LEGEND_LINE)
    begin = HEAD + legends + 26
    captions = [panels[0].chart.caption] if panels else []
    letters = LETTERS * len(panels) if len(panels) > 1 else ALONE
    lines = [line for words in (*captions, *said) for line in wrap(words, letters)]
    foot = [(begin + 15 * number, line) for number, line in enumerate(lines)]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )  # fmt: skip
    return environment.get_template("report/simulate.svg.j2").render(
        title=title,
        panels=panels, foot=foot, head=HEAD, left=LEFT, right=RIGHT, top=TOP, bottom=BOTTOM,
        colors=COLORS, shades=SHADES,
        full_width=WIDTH * len(panels), full_height=begin + 15 * len(lines),
    )  # fmt: skip


def _charts(answers: Sequence[Answer]) -> Iterator[tuple[Chart, str]]:
    """Yield each chart with the words below its title."""
    if len(answers) > 1:
        charts = [against_load(answers, metric) for metric in DISTRIBUTIONS]
    elif shown := [row for row in answers[0].rows if row.runs[0].in_flight]:
        yield from zip(over_time(answers[0]), map(_latency, shown), strict=True)
        return
    else:
        charts = [distribution(answers[0], metric) for metric in DISTRIBUTIONS]
    yield from ((chart, "") for chart in charts if chart)


def _latency(row: Row) -> str:
    p99 = combined(row.runs).e2e_s.p99
    return "" if p99 is None else f"99 of 100 answers are complete within {seconds(p99)}"


def _legend(chart: Chart) -> list[Entry]:
    width = max(LEGEND_WIDTH, 40 + LETTER * max((len(curve.name) for curve in chart.curves), default=0))
    in_line = max(1, (RIGHT - LEFT) // width)
    return [
        Entry(curve, LEFT + width * (number % in_line), BOTTOM + 54 + LEGEND_LINE * (number // in_line))
        for number, curve in enumerate(chart.curves)
    ]
