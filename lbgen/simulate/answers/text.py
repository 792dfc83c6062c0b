"""An answer as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.simulate.answers.columns import Column, folded, wrapped
from lbgen.simulate.answers.conclusion import against, conclusion, headline
from lbgen.simulate.runs.result import combined, row_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lbgen.simulate.answers.study import Answer
    from lbgen.simulate.runs.result import Figures, Row


def tables(answers: Sequence[Answer], width: int = 0) -> str:
    """Return each answer's table, and behind several how the figures grow with the load.

    `width`: of the terminal; 0: as wide as need be.
    """
    text = "\n".join(table(found, width) for found in answers)
    return text if len(answers) == 1 else f"{text}\n{_by_load(answers, width)}"


def _by_load(answers: Sequence[Answer], width: int) -> str:
    lines: dict[str, list[str]] = {}
    for found in answers:
        for row in found.rows:
            lines.setdefault(row_name(row), []).append(figure(combined(row.runs).ttft_s.p99))
    crowds = [count for found in answers if (count := found.question.workload.clients) is not None]
    heading = "with so many clients" if crowds else "at a load of"
    names = [str(one) for one in crowds] or [f"{found.load:.2f}" for found in answers]
    full = [[*cells, *["-"] * (len(answers) - len(cells))] for cells in lines.values()]
    columns = [
        Column("", "strategy", list(lines)),
        *(
            Column(f"first token P99, s, {heading}", name, cells)
            for name, cells in zip(names, map(list, zip(*full, strict=True)), strict=True)
        ),
    ]
    return "\n".join(folded(columns, 1, width)) + "\n"


def table(found: Answer, width: int = 0) -> str:
    """Return headline, table, differences and conclusion."""
    texts = sum(column.name in TEXTS for column in columns(found))
    lines = [*wrapped([headline(found)], width), "", *folded(columns(found), texts, width)]
    lines += ["", *wrapped([*against(found), "", *conclusion(found)], width)]
    return "\n".join(lines) + "\n"


TEXTS = ("strategy", "target")


def columns(found: Answer) -> list[Column]:
    """Return the table's columns, without those that say nothing here."""
    wholes = [combined(row.runs) for row in found.rows]
    marked = not all(whole.steady for whole in wholes)
    names = Column("", "strategy", [_name(row) for row in found.rows])
    targets = Column("", "target", [row.target or "-" for row in found.rows])
    told = [] if set(targets.cells) == {"-"} else [targets]
    return [names, *told, *figure_columns(wholes, marked=marked)]


def figure_columns(wholes: Sequence[Figures], *, marked: bool, waiting: bool = True) -> list[Column]:
    """Return a column for each figure; `marked`: latencies of runs without a steady state have a star."""

    def times(group: str, spread: str, *shares: str) -> list[Column]:
        return [
            Column(
                f"{group}, s",
                share.upper(),
                [_time(whole, getattr(getattr(whole, spread), share), marked) for whole in wholes],
            )
            for share in shares
        ]

    def numbers(group: str, name: str, kind: str, values: Iterable[float | None]) -> Column:
        return Column(group, name, ["-" if value is None else format(value, kind) for value in values])

    shares = [one.prefix_hit_ratio for one in wholes]
    hits = numbers("hits", "%", ".1f", (100 * share if share else None for share in shares))
    return [
        numbers("requests", "all", ",", (one.requests for one in wholes)),
        numbers("requests", "failed", ",", (one.requests - one.ok for one in wholes)),
        *times("first token", "ttft_s", "p50", "p90", "p99"),
        *(times("waiting", "queue_s", "p99") if waiting else ()),
        *times("whole answer", "e2e_s", "p50", "p99"),
        numbers("in flight", "spread", ".2f", (one.load_stdev for one in wholes)),
        *([] if set(hits.cells) == {"-"} else [hits]),
        numbers("output", "tokens/s", ",.0f", (one.tokens_per_s for one in wholes)),
    ]


def figure(value: float | None) -> str:
    """Return seconds under a heading that names the unit: three figures."""
    if value is None:
        return "-"
    if value < 0.0995:
        return f"{value:.3f}"
    return f"{value:.2f}" if value < 99.95 else f"{value:.0f}"


def _time(whole: Figures, value: float | None, marked: bool) -> str:
    star = "" if not marked else " " if whole.steady or value is None else "*"
    return figure(value) + star


def _name(row: Row) -> str:
    name = f"{row.strategy} (present)" if row.present else row.strategy
    return f"{name} [not on {', '.join(row.refused_by)}]" if row.refused_by else name


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
