"""Answers as one self-contained page: no script, no network, light and dark, fit for phones and paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jinja2

from lbgen import __version__
from lbgen.simulate.answers.charts import (
    BOTTOM,
    COLORS,
    DISTRIBUTIONS,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Chart,
    against_load,
    distribution,
    over_time,
)
from lbgen.simulate.answers.conclusion import against, conclusion, headline, in_words
from lbgen.simulate.answers.text import columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from lbgen.simulate.answers.study import Answer


class Section(NamedTuple):
    """What the page says of one load."""

    title: str
    words: list[str]
    """What to make of it, for people who do not read tables."""
    headline: str
    header: list[str]
    rows: list[list[str]]
    differences: list[str]
    charts: list[Chart]
    over_time: list[Chart]
    differences_title: str = "Differences, with 95 % intervals over the seeds:"
    paired: bool = False
    """Two charts over time belong together each."""


class Page(NamedTuple):
    """What a page shows."""

    command: str
    heading: str
    sections: list[Section]
    ending: str
    """What is said of the page itself."""
    by_load: Sequence[Chart] = ()
    capacities: Sequence[str] = ()


def page(answers: Sequence[Answer], templates: Path, capacities: Sequence[str] = ()) -> str:
    """Return the page; `templates` is the folder of the built-in ones, `capacities` lines of text."""
    shown = Page(
        "simulate",
        f"What strategies would do to {answers[0].question.pool.name}",
        [_section(found) for found in answers],
        "the same command gives the same page.",
        known(against_load(answers, metric) for metric in DISTRIBUTIONS),
        capacities,
    )
    return html(shown, templates)


def html(shown: Page, templates: Path) -> str:
    """Return a page's HTML."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("report/simulate.html.j2").render(
        **shown._asdict(),
        width=WIDTH, height=HEIGHT, left=LEFT, right=RIGHT, top=TOP, bottom=BOTTOM,
        colors=COLORS,
        version=__version__,
    )  # fmt: skip


def _section(found: Answer) -> Section:
    shown = columns(found)
    return Section(
        title=f"Load {found.load:.2f}: {found.rate_per_s:.4g} requests/s",
        words=[*in_words(found), *conclusion(found)],
        headline=headline(found),
        header=[column.title for column in shown],
        rows=[list(cells) for cells in zip(*(column.cells for column in shown), strict=True)],
        differences=against(found),
        charts=known(distribution(found, metric) for metric in DISTRIBUTIONS),
        over_time=over_time(found),
    )


def known(charts: Iterable[Chart | None]) -> list[Chart]:
    """Return the charts that there are."""
    return [chart for chart in charts if chart is not None]
