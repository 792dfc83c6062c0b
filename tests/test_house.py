"""The house rules, held by tools: lint, format, types, layers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
TOOLS = {
    "ruff check": ["ruff", "check", "--no-cache", "."],
    "ruff format": ["ruff", "format", "--no-cache", "--check", "."],
    "mypy": ["mypy"],
    "import-linter": ["lint-imports", "--no-cache"],
}


@pytest.mark.parametrize("name", TOOLS)
def test_tool_finds_nothing(name: str) -> None:
    program, *arguments = TOOLS[name]
    path = Path(sys.executable).parent / program
    assert path.exists(), f"{program} is missing: pip install -e '.[dev]'"
    done = subprocess.run([path, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_integration_tests_can_be_collected() -> None:
    """Whoever has no time to run them sees at least that nothing in them is broken."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-n0", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, "integration"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
