"""Every golden fleet's files for Envoy, by the real program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.envoy_site import program, version
from lbgen.checker.check import check_target
from lbgen.checker.programs import Choice
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source

if TYPE_CHECKING:
    from lbgen.checker.spec import Verdict

pytestmark = pytest.mark.usefixtures("envoy_version")

GOLDEN = Path(__file__).parent.parent / "tests" / "golden"
CASES = sorted(path.parent for path in GOLDEN.glob("*/fleet.yaml"))


def checked(text: str, *sets: str) -> Verdict:
    loaded = load([Source("fleet.yaml", text)], environ={}, targets=("envoy",), sets=sets)
    assert loaded.fleet is not None, loaded.problems
    return check_target(loaded.fleet, "envoy", Choice("required", {"envoy": program()}))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden_fleets(case: Path) -> None:
    verdict = checked((case / "fleet.yaml").read_text(), f'targets.envoy.version="{version()}"')
    assert verdict.checked
    assert not verdict.problems


def test_what_envoy_refuses_is_said() -> None:
    text = "pools: {a: {servers: ['10.0.0.1:80']}}"
    verdict = checked(text, 'targets.envoy.raw.cluster=["bogus: 3"]')
    assert "bogus" in verdict.problems[0].message
