"""Prometheus' own checker."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def promtool(*words: str | Path) -> str:
    """Run it and return what it says; raises `AssertionError` when it finds something."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool: not found (Debian's package prometheus)")
    done = subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
