"""The page of rules says what the registry says, and shows the examples that are tested."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.fleet.rules import RULES
from tests.pages.rules import page

if TYPE_CHECKING:
    import pytest

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "reference" / "rules.md"


def examples() -> dict[str, tuple[str, str]]:
    found = {}
    for code in RULES:
        fires = (HERE / code / "fires.yaml").read_text().splitlines(keepends=True)
        shown = "".join(line for line in fires if not line.startswith("# expect"))
        found[code] = (shown, (HERE / code / "quiet.yaml").read_text())
    return found


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    text = page(examples())
    if request.config.getoption("--update-golden"):
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "pytest tests/rules --update-golden writes it anew"


def test_every_code_has_its_heading() -> None:
    headings = [
        line.removeprefix("### ") for line in PAGE.read_text().splitlines() if line.startswith("### ")
    ]
    assert headings == list(RULES)
