"""What lbgen knows of a real checker, and what it says of a check."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lbgen.checker.surroundings import Surroundings
    from lbgen.model import Fleet
    from lbgen.problems import Problem
    from lbgen.runtimes.spec import Program
    from lbgen.vocabulary import Version


class Message(NamedTuple):
    """One complaint of a checker."""

    is_error: bool
    text: str
    file: str = ""
    """As the checker named it; empty: it named none."""
    line: int = 0


class Checker(Protocol):
    """A target's own program, and how it is asked to check a configuration."""

    @property
    def program(self) -> str:
        """Its name on PATH and in its image, and the image's name on Docker Hub."""

    def version(self, program: Program) -> Version | None:
        """Ask the program for its version; None when it does not say one."""

    def stand_in(self, fleet: Fleet, around: Surroundings, program: Program) -> Fleet:
        """Return the fleet as the program can check it here."""

    def arguments(self, main_file: Path, version: Version) -> Sequence[str]:
        """Return the arguments that check a configuration and touch nothing outside its folder."""

    def messages(self, output: str) -> Iterator[Message]:
        """Yield what the program complained of."""


class Verdict(NamedTuple):
    """What came of the check of one target."""

    target: str
    line: str
    """For people: ``nginx 1.22.1: ok``."""
    checked: bool
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    """What was stood in for, one line a kind."""
    files: tuple[tuple[str, str], ...] = ()
    """Names and texts of the rendered files that the problems point into."""
