"""A trial's outcome as one page: predicted beside measured, in tables and charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.lab.trial.results.told import agreement, circumstances, columns, failures, unsteady
from lbgen.simulate.answers.charts import DISTRIBUTIONS, Shown, distributions, rows_over_time
from lbgen.simulate.answers.conclusion import headline, in_words
from lbgen.simulate.answers.report import Page, Section, html, known
from lbgen.simulate.runs.result import row_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lbgen.lab.trial.conduct import Measured, Trial


def page(trial: Trial, templates: Path, missed: Sequence[str] = ()) -> str:
    """Return the page; `missed`: the expectations that do not hold, as sentences."""
    heading = f"What strategies do to {trial.found.question.pool.name}, measured"
    ending = circumstances(trial)
    return html(Page("trial", heading, [_section(trial, missed)], ending[0].lower() + ending[1:]), templates)


def _section(trial: Trial, missed: Sequence[str]) -> Section:
    told = columns(trial.rows)
    measured = trial.found._replace(rows=tuple(row.measured for row in trial.rows))
    verdict, *apart = agreement(trial.rows)
    shown = list(_shown(trial.rows))
    return Section(
        title=f"Load {trial.found.load:.2f}: {trial.found.rate_per_s:.4g} requests/s",
        words=[
            *(f"Expected {sentence}." for sentence in missed),
            *failures(trial.rows),
            *in_words(measured),
            *unsteady(trial.rows),
            verdict,
        ],
        headline=headline(trial.found),
        header=[column.title for column in told],
        rows=[list(cells) for cells in zip(*(column.cells for column in told), strict=True)],
        differences=[line.strip() for line in apart],
        charts=known(distributions(shown, metric) for metric in DISTRIBUTIONS),
        over_time=rows_over_time([(one.name, one.row) for one in shown]),
        differences_title="Where the two differ:",
        paired=True,
    )


def _shown(rows: Sequence[Measured]) -> Iterator[Shown]:
    """Yield what was predicted, dashed, and what was measured, in one colour."""
    for number, row in enumerate(rows):
        name = row_name(row.measured)
        if row.predicted is not None:
            yield Shown(f"{name}, predicted", row.predicted, number, faint=True)
        yield Shown(f"{name}, measured", row.measured, number)
