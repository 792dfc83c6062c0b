"""How far a long command is: done of total and time left, on a terminal only."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.cli.console import Console

EVERY_S = 0.2
"""The line is written anew at most so often."""
CLEAR = "\r\x1b[K"


class Progress:
    """One line on standard error that counts up; silent with --quiet and where no terminal is."""

    def __init__(self, console: Console, what: str, *, estimates: bool = True) -> None:
        """Begin with nothing done; `what` is counted, such as ``runs``; `estimates`: tell the time left."""
        self._estimates = estimates
        self._silent = console.quiet or not sys.stderr.isatty()
        self._what = what
        self._begin = time.monotonic()
        self._last = -EVERY_S

    def show(self, done: int, total: int) -> None:
        """Say that so many of so many are done; the line goes when all are."""
        now = time.monotonic()
        if self._silent or (done < total and now - self._last < EVERY_S):
            return
        self._last = now
        left = (now - self._begin) / done * (total - done) if done and self._estimates else 0.0
        self._write("" if done >= total else f"{done}/{total} {self._what}{time_left(left)}")

    def clear(self) -> None:
        """Take the line away, before something else is said."""
        if not self._silent:
            self._write("")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"{CLEAR}{text}")
        sys.stderr.flush()


def time_left(seconds: float) -> str:
    """Return about how long it takes yet, in words; nothing where that is not known."""
    if not seconds:
        return ""
    return f", {seconds:.0f} s left" if seconds < 90 else f", {seconds / 60:.0f} min left"
