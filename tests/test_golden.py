"""Each folder of tests/golden: a fleet, and to the byte what it renders to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render
from lbgen.secret_values import RealSecrets

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.parent for path in GOLDEN.glob("*/fleet.yaml"))
SECRETS = {
    "TEAM_A_KEY": "sk-team-a",
    "BATCH": "sk-batch",
    "BATCH_NEXT": "sk-batch-next",
    "KEY": "sk-engine",
    "P": "pw",
}


def rendered(case: Path) -> dict[str, str]:
    """Return path -> text of everything that a case renders to."""
    loaded = load([Source("fleet.yaml", (case / "fleet.yaml").read_text())], environ={})
    assert loaded.fleet is not None, loaded.problems
    assert not [problem for problem in loaded.problems if problem.is_error]
    files: dict[str, str] = {}
    for target in loaded.fleet.targets:
        for file in render(loaded.fleet, target.name, secrets=RealSecrets(SECRETS)):
            files[f"{target.name}/{file.path}"] = file.text
    return files


def expected(case: Path) -> dict[str, str]:
    paths = [path for path in case.rglob("*") if path.is_file() and path.name != "fleet.yaml"]
    return {str(path.relative_to(case)): path.read_text() for path in paths}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_renders_to_the_byte(case: Path, request: pytest.FixtureRequest) -> None:
    files = rendered(case)
    if request.config.getoption("--update-golden"):
        _rewrite(case, files)
    assert expected(case) == files
    assert rendered(case) == files, "the same fleet must give the same bytes"


def _rewrite(case: Path, files: dict[str, str]) -> None:
    for old in case.iterdir():
        if old.is_dir():
            shutil.rmtree(old)
    for name, text in files.items():
        (case / name).parent.mkdir(parents=True, exist_ok=True)
        (case / name).write_text(text)


def test_every_folder_is_a_case() -> None:
    orphans = [path for path in GOLDEN.iterdir() if not (path / "fleet.yaml").is_file()]
    assert not orphans
    assert CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_text_is_clean(case: Path) -> None:
    for name, text in rendered(case).items():
        assert text.endswith("\n"), name
        assert not text.endswith("\n\n"), name
        for trace in ("None", "True", "False", "{'", "['", "\\n\\", "${", "Undefined"):
            assert trace not in text, f"{trace} in {name}"
