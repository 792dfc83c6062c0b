"""Every fleet that passes the check is taken by the programs: random fleets, the programs of this machine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbgen.checker.check import check_target
from lbgen.checker.programs import Choice, version_here
from lbgen.checker.vulnerabilities import CODE
from tests.properties.examples import examples
from tests.properties.fleets import fleets

TARGETS = ("nginx", "haproxy")


@pytest.mark.timeout(900)  # each example starts a program
@pytest.mark.parametrize("target", TARGETS)
@given(data=st.data())
@examples(60, 400)
def test_what_passes_the_check_is_accepted(target: str, data: st.DataObject) -> None:
    version = version_here(target, Choice())
    if version is None:
        pytest.skip(f"{target} is not installed here")
    text, fleet = data.draw(fleets(target, str(version)))
    verdict = check_target(fleet, target, Choice())
    assert verdict.checked, verdict
    found: list[Any] = [problem.message for problem in verdict.problems if problem.code != CODE]
    assert not found, (found, text)
