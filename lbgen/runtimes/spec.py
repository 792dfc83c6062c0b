"""What a runtime is: a place where a program can be run on a folder of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from lbgen.problems import LbgenError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Finished(NamedTuple):
    """How a program ended; a negative code is the signal that ended it, as in `subprocess`."""

    code: int
    output: str
    """Standard output and standard error, as they came."""


class NoProgramError(LbgenError):
    """There is no such program, or no such place to run it in; the text says why."""


class Program(Protocol):
    """A program that was found."""

    @property
    def place(self) -> str:
        """Where it is, for people: a path or an image."""

    @property
    def in_container(self) -> bool:
        """True: it sees nothing of this machine but the folder it is given, and runs as root."""

    def package(self) -> str:
        """Return the version of the Debian package that it belongs to; empty: there is none."""

    def run(self, arguments: Sequence[str], folder: Path | None = None) -> Finished:
        """Run it to its end; it finds `folder` under its own name. Raises `NoProgramError`."""
