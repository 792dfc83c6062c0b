"""A trial's outcome as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.simulate.answers.columns import Column, folded, wrapped
from lbgen.simulate.answers.conclusion import headline
from lbgen.simulate.answers.text import figure_columns
from lbgen.simulate.runs.result import as_json, row_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.lab.trial.conduct import Measured, Trial
    from lbgen.lab.trial.results.agreement import Gap

TOLERANCE = (
    "15 % of a latency (or two decode steps and 5 ms of the clock), 5 points of a server's share and 3 of "
    "prefix hits"
)


def text(trial: Trial, width: int = 0) -> str:
    """Return headline and table, *predicted* over *measured*; `width`: of the terminal, 0: any."""
    lines = [headline(trial.found), *failures(trial.rows)]
    lines = [*wrapped(lines, width), "", *folded(columns(trial.rows), 3, width), ""]
    servers = [f"  {row_name(row.measured)}: {', '.join(_shares(row))}" for row in trial.rows]
    rest = ["Requests by server, measured (predicted):", *servers, ""]
    rest += [*agreement(trial.rows), "", *unsteady(trial.rows), circumstances(trial)]
    return "\n".join([*lines, *wrapped(rest, width)]) + "\n"


def _shares(row: Measured) -> Iterator[str]:
    """Yield how many requests each server had, and how many were predicted."""
    before = {one.name: one.requests for one in row.predicted.runs[0].servers} if row.predicted else {}
    for one in row.measured.runs[0].servers:
        yield f"{one.name} {one.requests}" + (f" ({before[one.name]})" if one.name in before else "")


def unsteady(rows: Sequence[Measured]) -> list[str]:
    """Return a line where the queue still grew in a run."""
    if all(one.runs[0].steady for row in rows for one in (row.measured, row.predicted) if one):
        return []
    words = (
        "* Not in a steady state: the queue was still growing when the last request came, so that "
        "percentiles are those of a run of this length. Use more --requests for others."
    )
    return [words]


def circumstances(trial: Trial) -> str:
    """Return how it was measured."""
    speeds = sorted({row.speed for row in trial.rows})
    ends = " to ".join(f"{one:.3g}" for one in dict.fromkeys((speeds[0], speeds[-1])))
    return (
        f"Measured with --runtime {trial.runtime} at {ends} times the GPUs' speed; the times are those of "
        f"GPUs at their real speed. {_lateness(trial.rows)}"
    )


def as_json_shape(trial: Trial) -> dict[str, Any]:
    """Return the contract's shape; each result has what was predicted beside it."""
    question = trial.found.question
    return {
        "kind": "trial",
        "pool": question.pool.name,
        "workload": {
            "name": question.workload.name,
            "rate_per_s": round(trial.found.rate_per_s, 6),
            "requests": question.requests,
            "seeds": list(question.seeds),
        },
        "load": round(trial.found.load, 6),
        "capacity_per_s": round(trial.found.capacity_per_s, 6),
        "speed": round(trial.speed, 6),
        "runtime": trial.runtime,
        "results": [
            {
                **as_json(row.measured),
                "preemptions": None,
                "file": row.measured.file or None,
                "predicted": as_json(row.predicted) if row.predicted else None,
                "speed": round(row.speed, 6),
                "late_s": {
                    "driver": row.late.driver._asdict(),
                    "mocks": {"p99_s": row.late.mocks_p99_s},
                },
                "failures": [one._asdict() for one in row.failures],
                "agreement": [
                    gap._asdict()
                    | {"agrees": gap.agrees, "by_chance": gap.by_chance, "by_lateness": gap.by_lateness}
                    for gap in row.gaps
                ],
            }
            for row in trial.rows
        ],
    }


def agreement(rows: Sequence[Measured]) -> list[str]:
    """Return what prediction and measurement do not agree on."""
    apart = [(row_name(row.measured), gap) for row in rows for gap in row.gaps if not gap.agrees]
    if not apart:
        return [f"Prediction and measurement agree (tolerance: {TOLERANCE})."]
    lines = [f"Prediction and measurement agree except in these figures (tolerance: {TOLERANCE}):"]
    for name, gap in apart:
        lines.append(f"  {name}: {gap.told}; {_verdict(gap)}")
    return lines


def _verdict(gap: Gap) -> str:
    if gap.by_chance:
        return "within what chance explains"
    return (
        "lbgen's own processes were late enough to explain it"
        if gap.by_lateness
        else "chance does not explain it"
    )


def failures(rows: Sequence[Measured]) -> list[str]:
    """Return of what requests failed, for the headline."""
    lines = []
    for row in rows:
        run = row.measured.runs[0]
        if run.ok < run.requests:
            share = 1 - run.ok / run.requests
            lines.append(
                f"FAILED under {row_name(row.measured)}: {run.requests - run.ok:,} of {run.requests:,} "
                f"requests ({share:.1%}): {', '.join(row.why)}"
            )
    return lines


def _lateness(rows: Sequence[Measured]) -> str:
    driver = max(row.late.driver.p99_s for row in rows)
    mocks = max(row.late.mocks_p99_s for row in rows)
    return (
        f"Delay of the test programs themselves (P99): load driver {driver * 1000:.1f} ms, mock GPU servers "
        f"{mocks * 1000:.1f} ms."
    )


def columns(rows: Sequence[Measured]) -> list[Column]:
    """Return the table: two lines for each row, predicted over measured."""
    pairs = [
        (one, kind)
        for row in rows
        for one, kind in ((row.predicted, "predicted"), (row.measured, "measured"))
        if one is not None
    ]
    wholes = [one.runs[0] for one, _ in pairs]
    texts = {
        "strategy": [
            one.file or ("" if kind == "measured" else f"{one.strategy}{' (present)' * one.present}")
            for one, kind in pairs
        ],
        "target": ["" if kind == "measured" and not one.file else one.target or "-" for one, kind in pairs],
        "": [kind for _, kind in pairs],
    }
    return [
        *(Column("", name, cells) for name, cells in texts.items()),
        *figure_columns(wholes, marked=not all(one.steady for one in wholes), waiting=False),
    ]
