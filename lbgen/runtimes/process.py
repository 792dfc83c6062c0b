"""Programs of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import LbgenError
from lbgen.runtimes.spec import Finished, NoProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/opt/homebrew/bin")
"""Where servers are installed; the PATH of an ordinary user lacks the first three."""

TIMEOUT_S = 120
"""A configuration of 10,000 servers is checked in a few seconds."""


class LocalProgram(NamedTuple):
    """An executable file."""

    place: str
    in_container: bool = False

    def package(self) -> str:
        """Return the version of the Debian package that it belongs to; empty: there is none."""
        dpkg = shutil.which("dpkg-query")
        place = os.path.realpath(self.place)
        return package_of(LocalProgram(dpkg).run, place) if dpkg else ""

    def run(self, arguments: Sequence[str], folder: Path | None = None) -> Finished:
        """Run it with C messages, without input; raises `NoProgramError` when it cannot start."""
        del folder  # a process sees it anyway
        try:
            done = subprocess.run(  # noqa: S603 - a program that the user named or installed, without a shell
                [self.place, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LC_ALL": "C"},
                timeout=TIMEOUT_S,
                check=False,
            )
        except OSError as error:
            raise NoProgramError(f"{self.place}: cannot be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise LbgenError(f"{self.place}: did not end within {TIMEOUT_S} s") from None
        return Finished(done.returncode, done.stdout.decode(errors="replace"))


def package_of(dpkg: Callable[[Sequence[str]], Finished], place: str) -> str:
    """Ask ``dpkg-query`` for the version of the package that a file is of; empty: of none."""
    owner = dpkg(["-S", place])
    name = owner.output.partition(":")[0]
    if owner.code != 0 or "\n" in name:
        return ""
    said = dpkg(["-W", "-f=${Version}", name])
    return said.output.strip() if said.code == 0 else ""


def find_local(name: str) -> LocalProgram | None:
    """Return the program of this name from PATH, or from where servers are usually installed."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS))
    found = shutil.which(name, path=path)
    return LocalProgram(found) if found else None


def program_at(path: str) -> LocalProgram:
    """Return the program at a path, or of a name on PATH; raises `NoProgramError` for what cannot be run."""
    if found := shutil.which(path):
        return LocalProgram(found)
    if "/" not in path and (program := find_local(path)):
        return program
    raise NoProgramError(f"{path}: is not a program that can be run")
