"""The page that walks through the rendered files shows what is rendered, and leaves nothing out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tests.targets.loaded import MAIN, files

PAGE = Path(__file__).parents[2] / "docs" / "reading.md"
MOST = {"nginx": 150, "haproxy": 90}
"""Lines of the smallest fleet's main file that somebody reads in a minute."""
OLDEST = {"nginx": "1.22", "haproxy": "2.6"}


def rendered(target: str) -> list[str]:
    fleet = next(block.text for block in blocks(PAGE) if block.language == "yaml")
    return files(fleet, target, OLDEST[target])[MAIN[target]].splitlines()


def says(line: str, shown: str) -> bool:
    """Tell whether a line of the page is this one; `…` stands for its rest."""
    begun, more, _ = shown.partition("…")
    return line.startswith(begun.rstrip()) if more else line == shown


@pytest.mark.parametrize("target", MOST)
def test_each_line_is_shown_once_and_in_order(target: str) -> None:
    shown = [
        line.strip() for block in blocks(PAGE) if block.language == target for line in block.text.splitlines()
    ]
    found = [line.strip() for line in rendered(target)]
    words = [line for line in found if line not in {"", "}"}]
    told = [line for line in shown if line not in {"", "}"}]
    assert len(told) == len(words)
    assert [(line, one) for line, one in zip(words, told, strict=True) if not says(line, one)] == []


@pytest.mark.parametrize("target", MOST)
def test_the_smallest_fleet_is_read_in_a_minute(target: str) -> None:
    assert len(rendered(target)) <= MOST[target]
