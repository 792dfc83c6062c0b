"""An answer as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.simulate.conclusion import against, conclusion, headline
from lbgen.simulate.result import combined

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.simulate.result import Row
    from lbgen.simulate.study import Answer

HEADER = (
    "strategy", "target", "requests", "ok", "failed", "first token", "P90", "P99", "waiting P99",
    "answer P50", "P99", "spread", "hits", "tokens/s",
)  # fmt: skip


def table(found: Answer) -> str:
    """Return headline, table, differences and conclusion."""
    header, rows = columns(found)
    lines = [headline(found), "", *_aligned([header, *rows])]
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
    lines = [f"Most requests/s with {objective}, and at most one in a thousand refused:"]
    for (strategy, target), rate in carried.items():
        name = f"{strategy} on {target}" if target else strategy
        lines.append(f"  {name}: {f'{rate:.3g}' if rate else 'never'}")
    return "\n" + "\n".join(lines) + "\n"


def seconds(value: float | None) -> str:
    """Return seconds as people read them: three figures."""
    if value is None:
        return "-"
    if value < 0.0995:
        return f"{value * 1000:.0f} ms" if value >= 0.00995 else f"{value * 1000:.1f} ms"
    return f"{value:.2f} s" if value < 99.95 else f"{value:.0f} s"


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


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
