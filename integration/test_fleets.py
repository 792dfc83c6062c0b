"""Public fleets, rendered, before the checker of the product and version that they are for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.debian import ImageError
from integration.images import GENERATIONS, resolve
from lbgen.cli.guard import run

FLEETS = sorted((Path(__file__).parent.parent / "tests" / "fleets").glob("*.yaml"))
TARGETS = ("nginx", "haproxy")
OLDEST = "bookworm"


def product(path: Path) -> tuple[str, str]:
    """Return the target that a fleet is for, and the suite that ships its version."""
    text = path.read_text(encoding="utf-8").partition("\ntargets:\n")[2]
    target = next(name for name in TARGETS if f"  {name}:" in text)
    for suite, generation in GENERATIONS.items():
        if f'version: "{getattr(generation, target)}"' in text:
            return target, suite
    return target, OLDEST


def program(target: str, suite: str) -> str:
    try:
        return f"{target}=docker://{resolve(suite, target)}"  # type: ignore[arg-type]
    except ImageError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("path", FLEETS, ids=lambda path: path.stem)
def test_its_checker_has_nothing_to_say(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, suite = product(path)
    refused = "\n# refused:" in path.read_text(encoding="utf-8")
    code = run(["check", str(path), "--format", "json", "--binary", program(target, suite)])
    captured = capsys.readouterr()
    problems = json.loads(captured.out)
    assert [problem["message"] for problem in problems if problem["code"].endswith("-says")] == []
    assert code == (1 if refused else 0), captured.err
    assert refused or f"{target} {getattr(GENERATIONS[suite], target)}." in captured.err, captured.err
