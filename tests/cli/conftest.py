"""Running the command line inside the test's process, as the shell would see it."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lbgen.cli.guard import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALLEST = "pools:\n  chat:\n    servers: [gpu-0:8000, gpu-1:8000]\n"


class Ended(NamedTuple):
    """How one call ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def lbgen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Ended]:
    """A function that runs ``lbgen ARGUMENTS`` in an empty folder, with `stdin` as standard input."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object, stdin: bytes | str = b"") -> Ended:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Ended(code, captured.out, captured.err)

    return call


@pytest.fixture
def smallest(tmp_path: Path) -> Path:
    """The smallest fleet, as a file."""
    path = tmp_path / "fleet.yaml"
    path.write_text(SMALLEST, encoding="utf-8")
    return path


@pytest.fixture
def fake_program(tmp_path: Path) -> Callable[[str, str], Path]:
    """A function that makes a shell script in the place of nginx or haproxy."""

    def make(name: str, script: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    return make
