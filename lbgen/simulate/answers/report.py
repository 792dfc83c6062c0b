"""Answers as one self-contained page: no script, no network, light and dark, fit for phones and paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import jinja2

from lbgen import __version__
from lbgen.simulate.answers.axes import BOTTOM, LEFT, RIGHT, TOP, WIDTH
from lbgen.simulate.answers.bars import BEGIN, END, Bars, latencies
from lbgen.simulate.answers.charts import DISTRIBUTIONS, Chart, against_load, distribution, over_time
from lbgen.simulate.answers.columns import Column, Heading, headings
from lbgen.simulate.answers.conclusion import against, conclusion, headline, in_words
from lbgen.simulate.answers.looks import COLORS, SHADES, shown
from lbgen.simulate.answers.text import columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from lbgen.simulate.answers.study import Answer


Drawn = TypeVar("Drawn", Bars, Chart)


class Section(NamedTuple):
    """What the page says of one load."""

    title: str
    words: list[str]
    """What to make of it, for people who do not read tables."""
    headline: str
    columns: Sequence[Column]
    """The table: texts, which have no group, then figures."""
    bars: Sequence[Bars]
    differences: Sequence[str]
    charts: Sequence[Chart]
    over_time: Sequence[Chart]
    differences_title: str = "Differences, with 95 % intervals over the seeds:"
    paired: bool = False
    """Two charts over time belong together each."""

    @property
    def groups(self) -> list[Heading]:
        """The first row of headings."""
        return headings(self.columns)

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells, line by line."""
        return list(zip(*(column.cells for column in self.columns), strict=True))


class Origin(NamedTuple):
    """Where a page comes from."""

    command: str
    made: str
    """Date and time."""


class Page(NamedTuple):
    """What a page shows."""

    command: str
    heading: str
    sections: list[Section]
    origin: Origin
    digest: str
    """Of the fleet; a short name of all that it says."""
    ending: str = ""
    """How it was measured."""
    by_load: Sequence[Chart] = ()
    capacities: Sequence[str] = ()


def page(answers: Sequence[Answer], templates: Path, origin: Origin, capacities: Sequence[str] = ()) -> str:
    """Return the page; `templates` is the folder of the built-in ones, `capacities` lines of text."""
    told = Page(
        "simulate",
        f"Strategies for the pool {answers[0].question.pool.name}, predicted",
        [_section(found) for found in answers],
        origin,
        answers[0].question.fleet.digest,
        by_load=known(against_load(answers, metric) for metric in DISTRIBUTIONS),
        capacities=capacities,
    )
    return html(told, templates)


def html(told: Page, templates: Path) -> str:
    """Return a page's HTML."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("report/simulate.html.j2").render(
        **told._asdict(),
        width=WIDTH, left=LEFT, right=RIGHT, top=TOP, bottom=BOTTOM, begin=BEGIN, end=END,
        colors=COLORS, shades=SHADES,
        version=__version__,
    )  # fmt: skip


def _section(found: Answer) -> Section:
    return Section(
        title=f"Load {found.load:.2f}: {found.rate_per_s:.4g} requests/s",
        words=[*conclusion(found), *in_words(found)],
        headline=headline(found),
        columns=columns(found),
        bars=latencies(shown(found.rows)),
        differences=against(found),
        charts=known(distribution(found, metric) for metric in DISTRIBUTIONS),
        over_time=over_time(found),
        paired=len(found.rows) in _PAIRED,
    )


_PAIRED = (2, 4)
"""Charts that look better two in a line."""


def known(charts: Iterable[Drawn | None]) -> list[Drawn]:
    """Return the charts that there are."""
    return [chart for chart in charts if chart is not None]
