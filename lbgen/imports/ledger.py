"""What became of each directive: said by the fleet, better by default, or not carried over."""

from __future__ import annotations

from enum import IntEnum
from textwrap import dedent
from typing import TYPE_CHECKING, NamedTuple

from lbgen.imports.secrets import masked, masked_words
from lbgen.problems import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.problems import Location

_LONGEST = 70
"""Characters of a directive that are shown."""


class Fate(IntEnum):
    """What became of a directive, the worst last."""

    CARRIED = 0
    """The fleet says it, or lbgen does the same on its own."""
    BETTER = 1
    """lbgen does something else on its own, which serves LLM traffic better."""
    LEFT = 2
    """Neither the fleet nor lbgen does what it said."""


class Entry(NamedTuple):
    """One directive."""

    location: Location
    text: str
    """As it was written, shortened, without what may be a key."""
    fate: Fate
    reasons: tuple[str, ...] = ()

    def line(self) -> str:
        """Return the directive with its place and why."""
        place = f"{self.location.file}:{self.location.line}"
        return ": ".join((place, self.text, *(["; ".join(self.reasons)] if self.reasons else [])))


class Ledger:
    """Notes the fate of each directive; one that nobody mentioned was not carried over."""

    def __init__(self) -> None:
        self._texts: dict[Location, str] = {}
        self._fates: dict[Location, Fate] = {}
        self._reasons: dict[Location, list[str]] = {}

    def expect(self, location: Location, words: Iterable[str]) -> None:
        """Count a directive."""
        self._texts.setdefault(location, shortened(words))

    def is_open(self, location: Location) -> bool:
        """Tell whether nothing is known of a directive yet."""
        return location not in self._fates

    def is_carried(self, location: Location) -> bool:
        """Tell whether a directive is in the fleet, as far as is known."""
        return self._fates.get(location) is Fate.CARRIED

    def is_left(self, location: Location) -> bool:
        """Tell whether a directive was not carried over."""
        return self._fates.get(location) is Fate.LEFT

    def carried(self, location: Location) -> None:
        """Note that the fleet says this."""
        self._note(location, Fate.CARRIED, "")

    def differs(self, location: Location, how: str) -> None:
        """Note that the fleet says this, and what is not the same."""
        self._note(location, Fate.CARRIED, how)

    def better(self, location: Location, reason: str) -> None:
        """Note that lbgen does better than this on its own."""
        self._note(location, Fate.BETTER, reason)

    def left(self, location: Location, reason: str) -> None:
        """Note that this was not carried over."""
        self._note(location, Fate.LEFT, reason)

    def entries(self) -> tuple[Entry, ...]:
        """Return all directives, those of one file together and in its order."""
        return tuple(
            Entry(
                location,
                self._texts[location],
                self._fates.get(location, Fate.LEFT),
                tuple(self._reasons.get(location, ())) or self._unknown(location),
            )
            for location in sorted(self._texts)
        )

    def _unknown(self, location: Location) -> tuple[str, ...]:
        return () if location in self._fates else ("lbgen has no key for it",)

    def _note(self, location: Location, fate: Fate, reason: str) -> None:
        before = self._fates.get(location, Fate.CARRIED)
        if fate > before:
            self._reasons[location] = []
        self._fates[location] = max(before, fate)
        reasons = self._reasons.setdefault(location, [])
        reason = masked(reason, names=False)
        if reason and fate >= before and reason not in reasons:
            reasons.append(reason)


def shortened(words: Iterable[str]) -> str:
    """Return a directive on one line, without what may be a key."""
    text = " ".join(masked_words(printable(word).replace("\n", " ") for word in words))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def summary(entries: Iterable[Entry]) -> str:
    """Return such as ``of 41 directives 35 carried over, 4 better by default, 2 not``."""
    fates = [entry.fate for entry in entries]
    count = {fate: fates.count(fate) for fate in Fate}
    parts = [f"{count[Fate.CARRIED]} carried over"]
    if count[Fate.BETTER]:
        parts.append(f"{count[Fate.BETTER]} better by default")
    parts.append(f"{count[Fate.LEFT]} not" if count[Fate.LEFT] else "none left out")
    return f"of {len(fates)} directives {', '.join(parts)}"


def reasons(text: str) -> dict[str, str]:
    """Return reasons by directive, from lines ``reason: directive directive``, continued with an indent."""
    return dict(_pairs(text))


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    title = ""
    for line in dedent(text).strip().splitlines():
        if not line.startswith(" "):
            title = line.rpartition(": ")[0]
        yield from ((word, title) for word in line.removeprefix(f"{title}:").split())


def words_by_title(text: str) -> dict[str, frozenset[str]]:
    """Return sets of words by title, written as `reasons` are."""
    found: dict[str, set[str]] = {}
    for word, title in _pairs(text):
        found.setdefault(title, set()).add(word)
    return {title: frozenset(words) for title, words in found.items()}
