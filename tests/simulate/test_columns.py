"""Tables that fold: never within a number, headings above their figures."""

from __future__ import annotations

import re

import pytest

from lbgen.simulate.answers.columns import Column, folded, wrapped

TABLE = [
    Column("", "strategy", ["least_conn (present)", "round_robin"]),
    Column("requests", "all", ["50,000", "50,000"]),
    Column("requests", "failed", ["0", "12"]),
    Column("first token, s", "P50", ["0.012", "0.013"]),
    Column("first token, s", "P99", ["0.31", "12.70"]),
    Column("output, tokens/s", "", ["7,131", "7,111"]),
]


def test_a_wide_terminal_gets_one_table_with_two_rows_of_headings() -> None:
    assert folded(TABLE) == [
        "                            requests  first token, s  output, tokens/s",
        "strategy                 all  failed      P50    P99",
        "least_conn (present)  50,000       0    0.012   0.31             7,131",
        "round_robin           50,000      12    0.013  12.70             7,111",
    ]


@pytest.mark.parametrize("width", [50, 60, 80])
def test_a_narrow_one_gets_parts_that_each_name_the_rows(width: int) -> None:
    lines = folded(TABLE, 1, width)
    assert max(map(len, lines)) <= width
    parts = "\n".join(lines).split("\n\n")
    assert len(parts) == {50: 3, 60: 2, 80: 1}[width]
    for part in parts:
        assert re.findall("^[a-z_]+", part, re.MULTILINE) == ["strategy", "least_conn", "round_robin"]
    whole = {cell for line in folded(TABLE) for cell in line.split()}
    assert {cell for line in lines for cell in line.split()} == whole


def test_figures_of_one_heading_stay_together() -> None:
    for part in "\n".join(folded(TABLE, 1, 45)).split("\n\n"):
        assert ("P50" in part) == ("P99" in part)


def test_prose_is_broken_between_words_alone() -> None:
    line = "round_robin on haproxy against least_conn: first token P99 +4.75 s ± 2.1, waiting P99 +4.7 s ± 2"
    lines = wrapped([line, "", "  indented " * 9], 40)
    assert max(map(len, lines)) <= 40
    assert " ".join(one.strip() for one in lines[: lines.index("")]) == line
    assert all(one.startswith("  ") for one in lines[1 : lines.index("")])
    assert wrapped([line]) == [line]
