"""An answer as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.simulate.conclusion import against, conclusion, headline
from lbgen.simulate.result import combined, row_name, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.simulate.result import Row
    from lbgen.simulate.study import Answer

HEADER = (
    "strategy", "target", "requests", "ok", "failed", "first token", "P90", "P99", "waiting P99",
    "answer P50", "P99", "spread", "hits", "tokens/s",
)  # fmt: skip


def tables(answers: Sequence[Answer]) -> str:
    """Return each answer's table, and behind several how the figures grow with the load."""
    text = "\n".join(table(found) for found in answers)
    return text if len(answers) == 1 else f"{text}\n{_by_load(answers)}"


def _by_load(answers: Sequence[Answer]) -> str:
    lines: dict[str, list[str]] = {}
    for found in answers:
        for row in found.rows:
            lines.setdefault(row_name(row), []).append(seconds(combined(row.runs).ttft_s.p99))
    crowds = [count for found in answers if (count := found.question.workload.clients) is not None]
    header = (
        ["first token P99 with so many clients", *map(str, crowds)]
        if crowds
        else ["first token P99 at a load of", *(f"{found.load:.2f}" for found in answers)]
    )
    full = [[name, *cells, *[""] * (len(answers) - len(cells))] for name, cells in lines.items()]
    return "\n".join(aligned([header, *full])) + "\n"


def table(found: Answer) -> str:
    """Return headline, table, differences and conclusion."""
    header, rows = columns(found)
    lines = [headline(found), "", *aligned([header, *rows])]
    lines += ["", *against(found), "", *conclusion(found)]
    return "\n".join(lines) + "\n"


def columns(found: Answer) -> tuple[list[str], list[list[str]]]:
    """Return the names and the cells of the table's columns, without those that say nothing here."""
    rows = [_cells(row) for row in found.rows]
    keep = [
        index
        for index, name in enumerate(HEADER)
        if name not in {"target", "hits"} or any(cells[index] != "-" for cells in rows)
    ]
    return [HEADER[index] for index in keep], [[cells[index] for index in keep] for cells in rows]


def capacity_text(objective: str, carried: Mapping[tuple[str, str | None], float]) -> str:
    """Return what each strategy carries with the objective met; nothing when there was none."""
    if not carried:
        return ""
    first, *lines = capacity_lines(objective, carried)
    return "\n".join(["", first, *(f"  {line}" for line in lines)]) + "\n"


def capacity_lines(objective: str, carried: Mapping[tuple[str, str | None], float]) -> list[str]:
    """Return a heading and a line for each strategy; nothing when there was no objective."""
    if not carried:
        return []
    lines = [f"Most requests/s with {objective}, and at most one in a thousand refused:"]
    for (strategy, target), rate in carried.items():
        name = f"{strategy} on {target}" if target else strategy
        lines.append(f"{name}: {f'{rate:.3g}' if rate else 'never'}")
    return lines


def _cells(row: Row) -> list[str]:
    whole = combined(row.runs)
    hits = whole.prefix_hit_ratio
    name = f"{row.strategy} (present)" if row.present else row.strategy
    return [
        f"{name} [not on {', '.join(row.refused_by)}]" if row.refused_by else name,
        row.target or "-",
        f"{whole.requests:,}",
        f"{whole.ok:,}",
        f"{whole.requests - whole.ok:,}",
        seconds(whole.ttft_s.p50),
        seconds(whole.ttft_s.p90),
        seconds(whole.ttft_s.p99),
        seconds(whole.queue_s.p99),
        seconds(whole.e2e_s.p50),
        seconds(whole.e2e_s.p99),
        "-" if whole.load_stdev is None else f"{whole.load_stdev:.2f}",
        "-" if not hits else f"{hits:.0%}",
        "-" if whole.tokens_per_s is None else f"{whole.tokens_per_s:,.0f}",
    ]


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Return a table's lines: so many columns to the left, the figures to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
