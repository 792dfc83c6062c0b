"""A trial's outcome as one page: predicted beside measured, in tables and charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.lab.trial.results.told import agreement, circumstances, columns, failures, unsteady
from lbgen.simulate.answers.bars import latencies
from lbgen.simulate.answers.charts import DISTRIBUTIONS, distributions, rows_over_time
from lbgen.simulate.answers.conclusion import headline, in_words
from lbgen.simulate.answers.looks import Shown, shown
from lbgen.simulate.answers.report import Page, Section, html, known

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lbgen.lab.trial.conduct import Measured, Trial
    from lbgen.simulate.answers.report import Origin


def page(trial: Trial, templates: Path, origin: Origin, missed: Sequence[str] = ()) -> str:
    """Return the page; `missed`: the expectations that do not hold, as sentences."""
    question = trial.found.question
    heading = f"Strategies for the pool {question.pool.name}, measured"
    sections = [_section(trial, missed)]
    return html(
        Page("trial", heading, sections, origin, question.fleet.digest, circumstances(trial)), templates
    )


def _section(trial: Trial, missed: Sequence[str]) -> Section:
    measured = trial.found._replace(rows=tuple(row.measured for row in trial.rows))
    verdict, *apart = agreement(trial.rows)
    pairs = list(_pairs(trial.rows))
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
        columns=columns(trial.rows),
        bars=latencies(pairs),
        differences=[line.strip() for line in apart],
        charts=known(distributions(pairs, metric) for metric in DISTRIBUTIONS),
        over_time=rows_over_time(pairs),
        differences_title="Where the two differ:",
        paired=True,
    )


def _pairs(rows: Sequence[Measured]) -> Iterator[Shown]:
    """Yield what was predicted, dotted, and what was measured, in one colour."""
    for one, row in zip(shown([row.measured for row in rows]), rows, strict=True):
        if row.predicted is not None:
            yield Shown(f"{one.name}, predicted", row.predicted, f"{one.style} guess")
        yield one._replace(name=f"{one.name}, measured")
