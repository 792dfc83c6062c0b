"""The order in which tests run, seen from a run of a few."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOOKS = "from tests.turns import *\n"
NOTES = """
import os, time
from pathlib import Path
import pytest

def note(name):
    with Path("notes").open("a") as file:
        file.write(f"+{name} ")
        file.flush()
        time.sleep(0.3)
        file.write(f"-{name} ")
"""
ALONE = """
@pytest.mark.alone
def test_alone():
    note("alone")
"""
BESIDE = """
def test_beside():
    note("beside")
"""


def run(folder: Path, *words: str) -> str:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    alone:\n    slow:\n")
    (folder / "conftest.py").write_text(HOOKS)
    for name, body in (("a", ALONE), ("b", BESIDE), ("c", BESIDE), ("d", ALONE)):
        (folder / f"test_{name}.py").write_text(NOTES + body)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    options = "-n auto --dist loadscope --no-loadscope-reorder"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ |= {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": options}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_who_measures_is_alone(tmp_path: Path) -> None:
    said = run(tmp_path, ".")
    assert "workers" in said or "nodes" in said
    notes = (tmp_path / "notes").read_text().split()
    assert sorted(notes) == sorted(["+alone", "-alone", "+beside", "-beside"] * 2)
    assert [then for now, then in pairwise(notes) if now == "+alone"] == ["-alone"] * 2


def test_folders_whose_hooks_both_ask_wait_for_one_turn(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "conftest.py").write_text(HOOKS)
        (tmp_path / name / f"test_{name}.py").write_text(NOTES + ALONE)
    assert "6 passed" in run(tmp_path, ".")


def test_named_files_run_in_one_process(tmp_path: Path) -> None:
    said = run(tmp_path, "test_b.py", "test_a.py")
    assert "workers" not in said
    assert (tmp_path / "notes").read_text().split() == ["+beside", "-beside", "+alone", "-alone"]
