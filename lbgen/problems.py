"""What can be wrong, and where: the values that every check in lbgen yields.

Errors are values. A check yields `Problem`s, somebody collects them, and only
where nothing more can be said are they raised, all together, as `FleetError`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

Path = tuple[str | int, ...]
"""Where a value sits in the fleet: ``("pools", "chat", "servers", 0, "weight")``."""


class Severity(StrEnum):
    """How bad a problem is: an error stops the work, a warning does not, an info is good to know."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Location(NamedTuple):
    """A place in a file; line and column count from 1, as editors do."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Problem(NamedTuple):
    """One finding, with a stable code and, once it is placed, a location."""

    code: str
    message: str
    path: Path = ()
    severity: Severity = Severity.ERROR
    hint: str = ""
    location: Location | None = None
    on_key: bool = False
    """True: it is the key at the end of `path` that is wrong, not its value."""

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR


class LbgenError(Exception):
    """Something the user can mend; its text is all that the user sees."""


class FleetError(LbgenError):
    """The fleet cannot be used; carries every problem that was found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.message for problem in self.problems))


def warning(code: str, message: str, path: Path, hint: str = "") -> Problem:
    """Return a problem that does not stop the work."""
    return Problem(code, message, path, Severity.WARNING, hint)


def path_text(path: Path) -> str:
    """Return a path as users read it: ``pools.chat.servers[0].weight``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def printable(text: str) -> str:
    """Return a text of others, such as a program's last words, that cannot steer the terminal.

    Odd file names stay what they are.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in "\n\t" or "\ud800" <= one <= "\udfff" else "\ufffd" for one in text
    )
