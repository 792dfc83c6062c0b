"""Every example and every golden fleet passes the real checkers of every generation, without a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.debian import ImageError
from integration.fleets import EVERY, Proxy
from lbgen.checker import check_target, parse_choice, vulnerabilities
from lbgen.fleet.load import Loaded, load
from lbgen.fleet.source import Source

ROOT = Path(__file__).parent.parent
FLEETS = sorted([*ROOT.glob("examples/*.yaml"), *ROOT.glob("tests/golden/*/fleet.yaml")])


def loaded(path: Path, proxy: Proxy) -> Loaded:
    """Return a fleet for one generation of one target, whatever version the file names."""
    source = Source(str(path.relative_to(ROOT)), path.read_text())
    versions = {proxy.target: proxy.version}
    return load([source], environ={}, targets=(proxy.target,), versions=versions)


def possible(path: Path, proxy: Proxy) -> bool:
    """Tell whether this generation can do what the fleet says: a golden may need a newer one."""
    found = loaded(path, proxy)
    return found.fleet is not None and not any(problem.is_error for problem in found.problems)


PAIRS = [(path, proxy) for path in FLEETS for proxy in EVERY if possible(path, proxy)]


def test_every_fleet_is_tried_with_each_target_or_named_for_one() -> None:
    tried = {path for path, _ in PAIRS}
    assert tried == set(FLEETS)
    for path in ROOT.glob("examples/*.yaml"):
        assert [proxy for other, proxy in PAIRS if other == path] == list(EVERY), path.name


@pytest.mark.parametrize(
    ("path", "proxy"), PAIRS, ids=[f"{path.parent.name}-{path.stem}-{proxy}" for path, proxy in PAIRS]
)
def test_the_checker_has_nothing_to_say(path: Path, proxy: Proxy) -> None:
    try:
        choice = parse_choice([f"{proxy.target}=docker://{proxy.image}"], [proxy.target])
    except ImageError as error:
        pytest.skip(str(error))
    fleet = loaded(path, proxy).fleet
    assert fleet is not None
    verdict = check_target(fleet, proxy.target, choice)
    assert verdict.checked, verdict
    # What the program itself has is no matter of the files.
    said = [problem.message for problem in verdict.problems if problem.code != vulnerabilities.CODE]
    assert not said
