"""What the README and the documentation tell people to type exists."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from lbgen.cli.app import COMMANDS, module_name

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(page: Path) -> list[list[str]]:
    """The words after each ``lbgen`` in the page's shell blocks."""
    blocks = re.findall(
        r"^```(?:sh|bash|console)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    found = []
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        for part in re.split(r"&&|\|\||[|;]", line.removeprefix("$ ")):
            try:
                words = shlex.split(part, comments=True)
            except ValueError:
                continue
            at = next((place for place, word in enumerate(words) if Path(word).name == "lbgen"), None)
            if at is not None and words[:at] in ([], ["python", "-m"], ["python3", "-m"], ["eval"]):
                found.append(words[at + 1 :])
    return found


ALL = [
    pytest.param(words, id=f"{page.name}: lbgen {' '.join(words)}")
    for page in PAGES
    for words in commands(page)
]


def test_the_readme_shows_commands():
    assert commands(ROOT / "README.md")


@pytest.mark.parametrize("words", ALL)
def test_documented_commands_exist(words):
    options = {"-h", "--help", "--version", "-q", "--quiet", "-v", "--verbose", "--color"}
    names = [word for word in words if not word.startswith("-")]
    if names:
        assert names[0] in COMMANDS
        command = import_module(module_name(names[0])).command
        options |= {text for parameter in command.params for text in parameter.opts}
    used = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
    assert used <= options


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented(name):
    assert any(f"lbgen {name}" in page.read_text(encoding="utf-8") for page in PAGES)
