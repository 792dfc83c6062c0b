"""What is said of a check."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lbgen.problems import Problem


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
