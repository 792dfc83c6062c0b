"""A configuration that somebody else wrote, as a trial runs it: what it binds and calls, and where else.

Nothing is read out of it but addresses and files: all else stays as it is written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lbgen.problems import Location
    from lbgen.targets.program import Ask
    from lbgen.units import Address

NOWHERE = "127.0.0.1:1"
"""Where nobody answers: for what is called beside the servers that are tried."""


class Called(NamedTuple):
    """An address that requests are passed to."""

    address: str
    """Host and port in lower case, as written but for that."""
    group: str
    """The upstream or backend that it is one of; for one that is called directly, the address."""
    tls: bool
    location: Location


class Entrance(NamedTuple):
    """An address that clients call, and what stands behind it."""

    bind: str
    tls: bool
    calls: frozenset[str]
    """The addresses that its requests may be passed to."""
    location: Location
    names: tuple[str, ...] = ()
    """The hosts that it is for, wildcards among them; empty: any."""
    default: bool = True
    """True: it takes requests for other hosts, too."""
    refused: str = ""
    """What keeps a trial from calling it."""


class Needed(NamedTuple):
    """A file that the configuration names."""

    written: str
    found: Path | None
    """Where it is; None: it cannot be read here."""
    location: Location
    certificate: bool = True
    """True: a made-up one can take its place."""


class Elsewhere(NamedTuple):
    """Where a trial has what a configuration names."""

    doors: Mapping[str, Address]
    """By the address called."""
    binds: Mapping[str, Address]
    folder: str
    """For logs, caches and the like, in the place of those named."""
    files: Mapping[str, str]
    """By the path written."""
    authority: str
    """The certificate by which servers and clients of a trial are verified."""
    user: str = ""
    """Whom the program has to run as; empty: it is left to itself."""
    ask: Ask = lambda _: ""
    """Runs the program with arguments, for what it says of itself; nothing where it cannot be asked."""


class Moved(NamedTuple):
    """The configuration for a trial."""

    text: str
    places: Sequence[Location | None]
    """Where each line comes from; None: it is the trial's."""
    changes: Sequence[str]
    """What differs from the file as it was, a line each."""

    def located(self, words: str, main_file: str) -> str:
        """Return the program's words with places of the file as it was."""

        def place(found: re.Match[str]) -> str:
            number = int(found[1])
            there = self.places[number - 1] if 0 < number <= len(self.places) else None
            return f"{there.file}:{there.line}" if there else found[0]

        return re.sub(rf"(?:[^\s\[]*/)?{re.escape(main_file)}:(\d+)", place, words)


class Foreign(Protocol):
    """A configuration of one target's program that lbgen did not write."""

    @property
    def binds(self) -> Sequence[str]:
        """Every address that it listens on, each once."""

    @property
    def calls(self) -> Sequence[Called]:
        """Every address that it passes requests to."""

    @property
    def entrances(self) -> Sequence[Entrance]: ...
    @property
    def files(self) -> Sequence[Needed]: ...
    @property
    def notes(self) -> Sequence[str]:
        """What a trial leaves out or adds, for people to know."""

    def moved(self, there: Elsewhere) -> Moved:
        """Return it with other addresses and files."""
