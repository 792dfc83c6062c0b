"""Configurations of the kinds that people publish: each becomes a fleet that loads and renders to the same.

`tests/imports/fleets/CASE/` holds a configuration, the fleet file that it becomes, and what is said of it.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.imports.ledger import Fate, summary
from lbgen.imports.whole import Imported, import_configurations
from lbgen.render import render
from lbgen.secret_values import RealSecrets
from tests.imports.reading import haproxy_facts, nginx_facts

CASES = sorted(path for path in (Path(__file__).parent / "fleets").iterdir() if path.is_dir())
ENVIRONMENT = {"ENGINE_PORT": "8000", "LISTEN_PORT": "8080"}
NAMES = ("nginx.conf", "haproxy.cfg")


def imported(case: Path, monkeypatch: pytest.MonkeyPatch) -> Imported:
    monkeypatch.chdir(case)
    return import_configurations([name for name in NAMES if (case / name).exists()])


def report(found: Imported) -> str:
    lines = [f"{one.fate.name.lower()} {one.line()}" for one in found.entries if one.fate or one.reasons]
    secrets = [f"secret {name} from {place.file}:{place.line}" for name, _, place in found.secrets]
    return "\n".join([summary(found.entries), *lines, *secrets]) + "\n"


KINDS = sorted(path for path in (Path(__file__).parent / "kinds").iterdir() if path.is_dir())
"""Configurations with a directive of every kind, for what becomes of each."""


@pytest.mark.parametrize("case", [*CASES, *KINDS], ids=lambda case: case.name)
def test_becomes_the_fleet(
    case: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    found = imported(case, monkeypatch)
    text = found.text(comments=False)
    if request.config.getoption("--update-golden"):
        (case / "fleet.yaml").write_text(text)
        (case / "report.txt").write_text(report(found))
    assert (case / "fleet.yaml").read_text() == text
    assert (case / "report.txt").read_text() == report(found)
    assert found.problems == ()


@pytest.mark.parametrize("case", KINDS, ids=lambda case: case.name)
def test_every_kind_loads(case: Path) -> None:
    loaded = load([Source("fleet.yaml", (case / "fleet.yaml").read_text())], environ={})
    assert [problem for problem in loaded.problems if problem.is_error] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_loads_and_renders_to_the_same(case: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = imported(case, monkeypatch)
    loaded = load([Source("fleet.yaml", found.text(comments=True))], environ=ENVIRONMENT)
    assert [problem for problem in loaded.problems if problem.is_error] == []
    assert loaded.fleet is not None
    names = [name.removeprefix("env:") for name, _, _ in found.secrets]
    secrets = RealSecrets({name: f"sk-{number}" for number, name in enumerate(names)})
    (target,) = loaded.fleet.targets
    for file in render(loaded.fleet, target.name, secrets=secrets):
        place = tmp_path / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(file.text)
    old = tmp_path / "old"
    shutil.copytree(case, old)
    for file in old.iterdir():
        file.write_text(re.sub(r"\$\{(\w+)\}", lambda one: ENVIRONMENT.get(one[1], one[0]), file.read_text()))
    facts = nginx_facts if target.name == "nginx" else haproxy_facts
    name = NAMES[target.name == "haproxy"]
    before, after = facts(old / name), facts(tmp_path / name)
    left = {entry.location.line for entry in found.entries if entry.fate is Fate.LEFT}
    assert before.without(left) <= after.everything


@pytest.mark.parametrize("case", [*CASES, *KINDS], ids=lambda case: case.name)
def test_no_key_is_copied(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = imported(case, monkeypatch)
    said = found.text(comments=True) + report(found)
    secrets = (
        "0123456789abcdef",
        "fedcba9876543210",
        "admin:admin",
        "sk-aaaa",
        "abc-def-ghi",
        "engine-secret",
    )
    for secret in (*secrets, "hunter2", "zzz"):
        assert secret not in said
