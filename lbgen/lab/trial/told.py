"""A trial's outcome as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.simulate.conclusion import headline
from lbgen.simulate.result import as_json, row_name, seconds
from lbgen.simulate.text import aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.lab.trial.agreement import Gap
    from lbgen.lab.trial.conduct import Measured, Trial
    from lbgen.simulate.result import Row

TOLERANCE = "15 % of a latency (or two decode steps and 5 ms of the clock) and 5 points of a server's share"
HEADER = (
    "strategy", "target", "", "requests", "failed", "first token", "P99", "answer P50", "P99", "spread",
    "hits", "tokens/s",
)  # fmt: skip


def text(trial: Trial) -> str:
    """Return headline and table, *predicted* over *measured*."""
    lines = [headline(trial.found), "", *aligned(columns(trial.rows), left=3), ""]
    servers = [
        f"  {row.measured.strategy} on {row.measured.target}: "
        + ", ".join(
            f"{there.name} {there.requests} ({before.requests})"
            for before, there in zip(row.predicted.runs[0].servers, row.measured.runs[0].servers, strict=True)
        )
        for row in trial.rows
    ]
    lines += ["Requests by server, measured (predicted):", *servers, ""]
    lines += [*agreement(trial.rows), "", *_failures(trial.rows), circumstances(trial)]
    return "\n".join(lines) + "\n"


def circumstances(trial: Trial) -> str:
    """Return how it was measured."""
    speeds = sorted({row.speed for row in trial.rows})
    ends = " to ".join(f"{one:.3g}" for one in dict.fromkeys((speeds[0], speeds[-1])))
    return (
        f"Measured with --runtime {trial.runtime}, {ends} seconds of the GPUs in a second of the "
        f"clock; times are the GPUs'. {_lateness(trial.rows)}"
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
                "predicted": as_json(row.predicted),
                "speed": round(row.speed, 6),
                "late_s": {
                    "driver": row.late.driver._asdict(),
                    "mocks": {"p99_s": row.late.mocks_p99_s},
                },
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
        return [f"Prediction and measurement agree; tolerated are {TOLERANCE}."]
    lines = [f"Prediction and measurement agree but for what follows; tolerated are {TOLERANCE}."]
    for name, gap in apart:
        lines.append(f"  {name}: {gap.told}; {_verdict(gap)}")
    return lines


def _verdict(gap: Gap) -> str:
    if gap.by_chance:
        return "that is chance, requests that swap places do as much"
    return "our own programs were late enough for that" if gap.by_lateness else "that is more than chance"


def _failures(rows: Sequence[Measured]) -> list[str]:
    """Return of what requests failed; statuses, and what became of connections."""
    failed = [
        f"  {row_name(one)}: " + ", ".join(f"{count} x {reason}" for reason, count in errors.items())
        for row in rows
        for one, errors in [(row.measured, row.measured.runs[0].errors)]
        if errors
    ]
    if any("429" in row.measured.runs[0].errors for row in rows):
        failed.append("  (429 are the fleet's own limits: --set listeners.NAME.limits=null leaves them out)")
    return ["Failed:", *failed, ""] if failed else []


def _lateness(rows: Sequence[Measured]) -> str:
    driver = max(row.late.driver.p99_s for row in rows)
    mocks = max(row.late.mocks_p99_s for row in rows)
    return (
        f"Late at the 99th percentile, on the clock: the load driver {driver * 1000:.1f} ms, the mock GPU "
        f"servers {mocks * 1000:.1f} ms."
    )


def columns(rows: Sequence[Measured]) -> list[list[str]]:
    """Return the table, its header first, without a column that says nothing here."""
    table = [list(HEADER)]
    for row in rows:
        table += [_cells(row.predicted, "predicted"), ["", "", *_cells(row.measured, "measured")[2:]]]
    hits = HEADER.index("hits")
    if all(cells[hits] in {"-", "hits"} for cells in table):
        return [[*cells[:hits], *cells[hits + 1 :]] for cells in table]
    return table


def _cells(row: Row, kind: str) -> list[str]:
    run = row.runs[0]
    return [
        f"{row.strategy} (present)" if row.present else row.strategy,
        row.target or "-",
        kind,
        f"{run.requests:,}",
        f"{run.requests - run.ok:,}",
        seconds(run.ttft_s.p50),
        seconds(run.ttft_s.p99),
        seconds(run.e2e_s.p50),
        seconds(run.e2e_s.p99),
        "-" if run.load_stdev is None else f"{run.load_stdev:.2f}",
        "-" if not run.prefix_hit_ratio else f"{run.prefix_hit_ratio:.0%}",
        "-" if run.tokens_per_s is None else f"{run.tokens_per_s:,.0f}",
    ]
