"""Whether a trial found what was expected of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lbgen.cli.predict.reports import origin, write_report
from lbgen.render import builtin_templates
from lbgen.simulate.runs.result import row_name

if TYPE_CHECKING:
    from lbgen.cli.console import Console
    from lbgen.cli.predict.trial import Wanted
    from lbgen.lab.trial.asked.expectations import Expectation
    from lbgen.lab.trial.conduct import Measured, Trial


def judge(console: Console, wanted: Wanted, expected: list[Expectation], trial: Trial) -> None:
    """Write the report, and say what does not hold; exits with 1 when something does not."""
    from lbgen.lab.trial.asked import expectations  # noqa: PLC0415 - the lab's packages are an extra
    from lbgen.lab.trial.results import page  # noqa: PLC0415 - the lab's packages are an extra

    missed = list(expectations.failed(expected, [row.measured for row in trial.rows]))
    if wanted.report:
        write_report(console, wanted.report, page.page(trial, builtin_templates(), origin(console), missed))
    for sentence in missed:
        console.error(f"expected {sentence}")
    counted = wanted.allow_errors or any(one.left.metric == "errors" for one in expected)
    failing = [] if counted else [row for row in trial.rows if _fails(row)]
    for row in failing:
        run = row.measured.runs[0]
        console.error(
            f"{row_name(row.measured)}: {run.requests - run.ok} of {run.requests} requests failed "
            f"({', '.join(row.why)}); --allow-errors accepts that"
        )
    if missed or failing:
        raise click.exceptions.Exit(1)


def _fails(row: Measured) -> bool:
    """Tell whether more of a run's requests failed than may."""
    from lbgen.lab.trial.results.failures import TOLERATED  # noqa: PLC0415 - the lab's packages are an extra

    run = row.measured.runs[0]
    return run.requests - run.ok > TOLERATED * run.requests
