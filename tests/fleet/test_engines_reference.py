"""The page of engines says what the table says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.engines import ENGINES
from tests.pages.engines import engines_markdown

if TYPE_CHECKING:
    import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "engines.md"


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    text = engines_markdown()
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "pytest tests/fleet --update-golden writes it anew"


def test_every_engine_has_its_section_and_its_metrics() -> None:
    text = PAGE.read_text()
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == list(ENGINES)
    for engine in ENGINES.values():
        for name in engine.metrics.running if engine.metrics else ():
            assert f"`{name}`" in text
