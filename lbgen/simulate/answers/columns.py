"""Tables for terminals: two rows of headings, folded between columns where a terminal is narrow."""

from __future__ import annotations

from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GAP = "  "


class Column(NamedTuple):
    """One column. Neighbours with the same group stand under one heading, and are never parted."""

    group: str
    """What the figures are of, with the unit."""
    name: str
    """Which of them this is; may be empty where the group says all."""
    cells: Sequence[str]

    @property
    def title(self) -> str:
        """Both headings in one, for tables with a single row of them."""
        return f"{self.group} {self.name}".strip()


class Heading(NamedTuple):
    """A cell of the first row of headings."""

    text: str
    columns: int


def headings(columns: Iterable[Column]) -> list[Heading]:
    """Return the first row of headings: neighbours with the same group stand under one."""
    groups = groupby(columns, lambda column: column.group)
    return [Heading(name, len(list(group))) for name, group in groups]


def folded(columns: Sequence[Column], left: int = 1, width: int = 0) -> list[str]:
    """Return a table's lines; the first `left` columns are texts, and begin each part of a folded table.

    `width`: of the terminal; 0: as wide as need be.
    """
    head = [_texts(column) for column in columns[:left]]
    groups = [_figures(list(group)) for _, group in groupby(columns[left:], lambda column: column.group)]
    parts: list[list[list[str]]] = [[]]
    for group in groups:
        if width and parts[-1] and _width([*head, *parts[-1], group]) > width:
            parts.append([])
        parts[-1].append(group)
    lines: list[str] = []
    for part in parts:
        lines += [""] if lines else []
        lines += [GAP.join(line).rstrip() for line in zip(*head, *part, strict=True)]
    return lines


def wrapped(lines: Iterable[str], width: int = 0) -> list[str]:
    """Return lines of prose that fit, broken between words alone; the rest of each is set in."""
    if not width:
        return list(lines)
    found = []
    for line in lines:
        begin = line[: len(line) - len(line.lstrip())]
        broken = wrap(
            line, width, initial_indent=begin, subsequent_indent=f"{begin}  ", break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
        found += broken or [""]
    return found


def _texts(column: Column) -> list[str]:
    lines = ["", column.title, *column.cells]
    size = max(map(len, lines))
    return [line.ljust(size) for line in lines]


def _figures(columns: Sequence[Column]) -> list[str]:
    """Return the lines of columns under one heading."""
    sizes = [max(len(column.name), *map(len, column.cells)) for column in columns]
    label = columns[0].group
    lacking = len(label) - sum(sizes) - len(GAP) * (len(columns) - 1)
    sizes[0] += max(0, lacking)
    rows = zip(*([column.name, *column.cells] for column in columns), strict=True)
    lines = [GAP.join(cell.rjust(size) for cell, size in zip(row, sizes, strict=True)) for row in rows]
    return [label.rjust(len(lines[0])), *lines]


def _width(groups: Sequence[Sequence[str]]) -> int:
    return sum(len(group[0]) for group in groups) + len(GAP) * (len(groups) - 1)
