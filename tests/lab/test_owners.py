"""What is left of a crash is told from what is in use, and goes when the next one starts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lbgen.lab import owners


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _left_by(label: str, temporary: Path, name: str) -> Path:
    folder = temporary / f"{owners.PREFIX}{name}"
    folder.mkdir()
    (folder / owners.OWNER_FILE).write_text(label)
    return folder


def test_only_folders_of_the_dead_are_swept(temporary: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        alive = _left_by(owners.owner(process.pid), temporary, "alive")
        dead_label = owners.owner(process.pid)
        owners.sweep_folders()
        assert alive.exists()
    dead = _left_by(dead_label, temporary, "dead")
    other_machine = _left_by("elsewhere.example 1 1", temporary, "elsewhere")
    strange = _left_by("", temporary, "strange")
    with owners.make_folder() as made:
        assert (Path(made) / owners.OWNER_FILE).read_text() == owners.owner(os.getpid())
        assert not dead.exists()
        assert not alive.exists()
        assert other_machine.exists()
        assert strange.exists()
        owners.sweep_folders()
        assert Path(made).exists()
    assert not Path(made).exists()


def test_a_later_process_with_the_same_number_is_not_the_owner() -> None:
    label = owners.owner(os.getpid())
    assert not owners.is_stale(label)
    assert owners.is_stale(f"{label.rpartition(' ')[0]} 1")
