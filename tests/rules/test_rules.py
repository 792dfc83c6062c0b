"""Each rule has a file that fires it, at the place it says, and one that does not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.rules import RULES, check
from lbgen.fleet.text.source import Source
from lbgen.units import Address
from tests.factory import Everything, fleet, listener

if TYPE_CHECKING:
    from lbgen.problems import Problem

HERE = Path(__file__).parent
TARGET_CODES = ("target-degraded", "target-refused", "without-unused")
ENVIRONMENT = {"TEAM_A_KEY": "sk-a", "ENGINE_KEY": "sk-e"}


def problems_of(path: Path) -> list[Problem]:
    """Return what is wrong with a file, apart from what a target makes of it."""
    found = load([Source(path.name, path.read_text())], environ=ENVIRONMENT).problems
    return [problem for problem in found if problem.code not in TARGET_CODES]


def said(problem: Problem) -> str:
    return f"{problem.location}: {problem.severity}[{problem.code}]: {problem.message}"


@pytest.mark.parametrize("code", RULES)
def test_fires_where_it_says(code: str) -> None:
    """`fires.yaml` has this one problem and no other; its first line says where."""
    path = HERE / code / "fires.yaml"
    expected = re.findall(r"^# expect: (\d+):(\d+)$", path.read_text(), re.MULTILINE)
    found = problems_of(path)
    assert [problem.code for problem in found] == [code] * len(expected), [said(problem) for problem in found]
    places = [
        (str(problem.location.line), str(problem.location.column)) for problem in found if problem.location
    ]
    assert places == expected
    assert all(problem.hint for problem in found)


@pytest.mark.parametrize("code", RULES)
def test_is_quiet_where_it_should_be(code: str) -> None:
    """`quiet.yaml` is how to write it instead: nothing at all is wrong with it."""
    assert [said(problem) for problem in problems_of(HERE / code / "quiet.yaml")] == []


def test_no_folder_without_a_rule() -> None:
    assert {path.name for path in HERE.iterdir() if path.is_dir() and path.name[0] != "_"} == set(RULES)


def test_defaults_fire_nothing_but_the_open_listener() -> None:
    """A fleet in which nothing but the servers is written."""
    unwritten = fleet(origins=Everything(set()))
    assert [problem.code for problem in check(unwritten)] == ["open-listener"]
    local = fleet(listeners=(listener(binds=(Address("::1", 8080),)),), origins=Everything(set()))
    assert list(check(local)) == []


def test_every_rule_is_documented() -> None:
    for rule in RULES.values():
        assert rule.summary[0].islower() or rule.summary[0] == "`" or rule.summary.startswith(("Ollama",)), (
            rule.code
        )
        assert rule.why.endswith("."), rule.code
        assert rule.remedy, rule.code
        assert (rule.check.__doc__ or "").startswith("Find "), rule.code
