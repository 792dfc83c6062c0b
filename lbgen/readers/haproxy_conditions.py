"""HAProxy's ``.if``, ``.elif``, ``.else`` and ``.endif``: which lines of a file count."""

from __future__ import annotations

import re

from lbgen.vocabulary import Version

_COMPARED = re.compile(r"version_(atleast|before)\((\d{1,3}\.\d{1,3}(?:\.\d{1,4})?)[^()]*\)")


class Conditions:
    """The conditions that are open; ask `holds` for each line, give `read` those that begin with a dot.

    What cannot be decided here (``defined``, ``feature``, an unknown version) counts as true once, and
    its ``.else`` as false: one branch is read, and the doubt is told.
    """

    def __init__(self, version: str = "") -> None:
        self._version = Version.parse(version) if version else None
        self._open: list[tuple[bool, bool, bool]] = []
        """For each '.if': whether this branch is read, whether one has been, and whether those around are."""

    @property
    def open(self) -> bool:
        """Tell whether an ``.endif`` is missing."""
        return bool(self._open)

    @property
    def holds(self) -> bool:
        """Tell whether a line here counts."""
        if not self._open:
            return True
        here, _, outer = self._open[-1]
        return here and outer

    def read(self, words: tuple[str, ...], line: str) -> str:
        """Take in a line that begins with a dot; returns a sentence when its condition is not known."""
        word, condition = words[0], line.strip()[len(words[0]) :].strip()
        doubt = ""
        if word == ".if":
            outer = self.holds
            value = self._value(condition)
            if outer and value is None:
                doubt = f"'{condition}' is not known here: taken for true"
            self._open.append((value is not False, value is not False, outer))
        elif word == ".elif" and self._open:
            _, done, outer = self._open.pop()
            value = self._value(condition)
            if value is None and not done:
                doubt = f"'{condition}' is not known here: taken for true"
            here = not done and value is not False
            self._open.append((here, done or here, outer))
        elif word == ".else" and self._open:
            _, done, outer = self._open.pop()
            self._open.append((not done, True, outer))
        elif word == ".endif" and self._open:
            self._open.pop()
        return doubt

    def _value(self, condition: str) -> bool | None:
        """Return what a condition is; None when that is not known here."""
        text = condition.partition(" #")[0].strip()
        if text.startswith("!"):
            value = self._value(text[1:].strip())
            return None if value is None else not value
        if text in {"", "0", "1"}:
            return text == "1"
        compared = _COMPARED.fullmatch(text)
        if compared and self._version is not None:
            at_least = self._version >= Version.parse(compared[2])
            return at_least == (compared[1] == "atleast")
        return None
