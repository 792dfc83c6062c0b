"""The page of commands says what the commands say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.cli.app import COMMANDS
from tests.pages.commands import page

if TYPE_CHECKING:
    import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    text = page()
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "pytest tests/cli --update-golden writes it anew"


def test_every_command_has_its_heading_and_options() -> None:
    text = PAGE.read_text()
    headings = [line.removeprefix("### lbgen ") for line in text.splitlines() if line.startswith("### ")]
    assert headings == list(COMMANDS)
    assert "| <code>-t, --target nginx&#124;haproxy&#124;envoy</code> |" in text
    assert "`LBGEN_RENDER_TARGET`" in text


def test_lines_that_stay_apart_are_marked_for_click() -> None:
    assert "\\b" not in PAGE.read_text()
    assert '    bash: eval "$(lbgen completion bash)" in ~/.bashrc\n    zsh:' in PAGE.read_text()
