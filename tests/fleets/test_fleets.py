"""Public fleets, as far as their files say: each can be written, and what is wrong with it is named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.fleet.load import Loaded, load
from lbgen.fleet.text.source import Source
from lbgen.render import render
from lbgen.secret_values import RealSecrets

if TYPE_CHECKING:
    from lbgen.problems import Problem

HERE = Path(__file__).parent
FLEETS = sorted(HERE.glob("*.yaml"))
SECRETS = {"TEAM_A_KEY": "sk-a", "TEAM_B_KEY": "sk-b", "TEAM_B_NEXT": "sk-c", "P": "pw"}
TARGET_CODES = ("target-degraded", "target-refused", "without-unused")


def loaded(path: Path) -> Loaded:
    return load([Source(path.name, path.read_text())], environ={})


def header(path: Path, word: str) -> list[str]:
    """Return what the file's comments promise: ``# warnings: …``, ``# refused: …``."""
    start = f"# {word}: "
    lines = [line for line in path.read_text().splitlines() if line.startswith(start)]
    return sorted(part for line in lines for part in line.removeprefix(start).split())


def refused_keys(problems: tuple[Problem, ...]) -> list[str]:
    return sorted({problem.message.split("'")[1] for problem in problems if problem.code == "target-refused"})


@pytest.mark.parametrize("path", FLEETS, ids=lambda path: path.stem)
def test_can_be_said(path: Path) -> None:
    """Nothing is wrong but what the file's first lines name."""
    problems = loaded(path).problems
    said = [f"{problem.location}: {problem.message}" for problem in problems]
    rules = [problem for problem in problems if problem.code not in TARGET_CODES]
    assert [problem.message for problem in rules if problem.is_error] == []
    assert sorted(problem.code for problem in rules) == header(path, "warnings"), said
    assert refused_keys(problems) == header(path, "refused"), said


@pytest.mark.parametrize("path", FLEETS, ids=lambda path: path.stem)
def test_renders_for_its_product(path: Path) -> None:
    if header(path, "refused"):
        return  # The refusals themselves are what test_can_be_said looks at.
    fleet = loaded(path).fleet
    assert fleet is not None
    for target in fleet.targets:
        main = render(fleet, target.name, secrets=RealSecrets(SECRETS))[0]
        for server in (server for pool in fleet.pools for server in pool.servers):
            assert str(server.address) in main.text
