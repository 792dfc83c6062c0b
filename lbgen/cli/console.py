"""What the user sees: results on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

from lbgen.problems import Severity, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lbgen.fleet.text.source import Source
    from lbgen.problems import Problem

_STYLES = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "ok": "\x1b[1;32m",
    "dim": "\x1b[2m",
    "added": "\x1b[32m",
    "removed": "\x1b[31m",
    "altered": "\x1b[33m",
}
_PLAIN = "\x1b[0m"


class Console:
    """Writes for one command line; knows how much is wanted and whether in colour."""

    __slots__ = ("arguments", "color", "quiet", "sources", "verbose")

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        self.arguments = arguments
        """The command line, without the program."""
        self.quiet = False
        self.verbose = False
        self.color = "auto"
        """``auto``, ``always`` or ``never``: what the user asked for."""
        self.sources: Sequence[Source] = ()
        """The texts that problems point into, for the line and the caret."""

    def result(self, text: str) -> None:
        """Print what was asked for."""
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")

    def note(self, text: str) -> None:
        """Print what is good to know, unless the user wants quiet."""
        if not self.quiet:
            _say(printable(text))

    def detail(self, text: str) -> None:
        """Print what only somebody looking for a fault wants to know."""
        if self.verbose:
            _say(self.styled(printable(text), "dim"))

    def warning(self, text: str) -> None:
        """Print what the user has to do or to know, though the work was done."""
        _say(f"lbgen: {self.styled('warning', 'warning')}: {printable(text)}")

    def error(self, text: str) -> None:
        """Print why the work could not be done."""
        _say(f"lbgen: {self.styled('error', 'error')}: {printable(text)}")

    def problems(self, problems: Iterable[Problem]) -> None:
        """Print problems for people, each with its line, a caret and a hint; quiet leaves the errors."""
        shown = [problem for problem in problems if problem.is_error or not self.quiet]
        if shown:
            from lbgen.cli.problem_text import text_report  # noqa: PLC0415 - often there is nothing to say

            color, width = self.wants_color(sys.stderr), wrap_width(sys.stderr)
            _say(text_report(shown, self.sources, color=color, width=width))

    def briefly(self, problems: Sequence[Problem], details: str, *, each: bool) -> None:
        """Print how many problems there are and how to see them whole; `each`: a line for each, too."""
        if self.quiet:
            return
        if each:
            from lbgen.cli.problem_text import head_lines  # noqa: PLC0415 - often there is nothing to say

            _say(head_lines(problems, color=self.wants_color(sys.stderr)))
        codes = "" if each else f" ({', '.join(dict.fromkeys(one.code for one in problems))})"
        self.note(f"{summary(problems)}{codes}; for details, {details}")

    def styled(self, text: str, style: str, stream: TextIO | None = None) -> str:
        """Return the text in a style, where the stream (default: standard error) gets colour."""
        return f"{_STYLES[style]}{text}{_PLAIN}" if self.wants_color(stream or sys.stderr) else text

    def wants_color(self, stream: TextIO) -> bool:
        """Tell whether a stream gets colour: by option, then NO_COLOR, then FORCE_COLOR, then what it is."""
        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("NO_COLOR"):  # https://no-color.org
            return False
        if os.environ.get("FORCE_COLOR"):
            return os.environ["FORCE_COLOR"] not in {"0", "false"}
        return stream.isatty() and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """Return the width of the terminal that results go to; 0 where they go to no terminal."""
    from shutil import get_terminal_size  # noqa: PLC0415 - takes a few milliseconds

    return get_terminal_size((0, 0)).columns


def wrap_width(stream: TextIO) -> int:
    """Return at which column problems are wrapped on a stream; 0, not at all, where it is no terminal."""
    return terminal_width() if stream.isatty() else 0


def summary(problems: Sequence[Problem]) -> str:
    """Return ``2 errors, 1 warning``; empty when there are none."""
    counts = [
        (sum(problem.severity is severity for problem in problems), severity.value) for severity in Severity
    ]
    return ", ".join(f"{count} {word}{'s' if count > 1 else ''}" for count, word in counts if count)


def _say(text: str) -> None:
    sys.stdout.flush()  # what was said first stands first, where both streams go to one place
    sys.stderr.write(text if text.endswith("\n") else f"{text}\n")
    sys.stderr.flush()
