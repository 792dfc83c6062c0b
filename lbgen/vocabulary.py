"""The words that strategies, targets and the simulator share."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from lbgen.problems import Path


class Version(NamedTuple):
    """A version of NGINX or HAProxy; a missing part is 0."""

    major: int
    minor: int
    patch: int = 0

    @classmethod
    def parse(cls, text: str) -> Version:
        """Return the version for ``1.22`` or ``3.0.11``; raises `ValueError`."""
        match = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})(?:\.([0-9]{1,4}))?", text)
        if not match:
            raise ValueError(f'\'{text}\' is not a version: write it as "1.26" or "3.0.11"')
        return cls(int(match[1]), int(match[2]), int(match[3] or 0))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}" if self.patch else f"{self.major}.{self.minor}"


class Feature(NamedTuple):
    """Something a target can do from one version on, and perhaps until another."""

    since: Version
    until: Version | None = None
    """The first version that lacks it again."""
    instead: str = ""
    """What to use where the feature is missing."""

    def in_version(self, version: Version) -> bool:
        return self.since <= version and (self.until is None or version < self.until)


class Support(StrEnum):
    """What a target makes of a key of the fleet file."""

    RENDERED = "rendered"
    DEGRADED = "degraded"
    REFUSED = "refused"


class Refused(NamedTuple):
    """A target's answer to what it cannot do: why, and the nearest thing that works."""

    reason: str
    instead: str


class Origins(Protocol):
    """Knows which values of a fleet were written by the user, and which are defaults."""

    def written(self, path: Path) -> bool:
        """Tell whether the file (or an overlay, or ``--set``) has a value at this path."""

    def plain(self) -> dict[str, Any]:
        """Return what was written, all files laid over one another; empty for a fleet made without a file."""


class ServerView(Protocol):
    """What a balancer sees of one server when it chooses."""

    @property
    def index(self) -> int: ...
    @property
    def weight(self) -> int: ...
    @property
    def in_flight(self) -> int:
        """Requests sent and not yet answered in full, as this balancer counts them."""

    @property
    def cap(self) -> int | None:
        """The most requests in flight that this balancer may send there."""

    @property
    def available(self) -> bool:
        """In rotation: up, not drained, not known to be dead."""

    @property
    def address(self) -> str: ...


class RequestView(Protocol):
    """What a balancer can know of a request before it chooses."""

    @property
    def session(self) -> str | None: ...
    @property
    def prefix(self) -> str | None:
        """Identifies the system prompt, or what else the prompt's beginning is known by."""

    @property
    def conversation(self) -> str | None:
        """Identifies system prompt and first user message together, or the name in a client's header.

        None: it is a conversation of one turn.
        """

    @property
    def prompt_tokens(self) -> int: ...
    @property
    def max_tokens(self) -> int | None: ...


class Chooser(Protocol):
    """One balancer's choice, with whatever it remembers between choices."""

    def choose(self, request: RequestView, servers: Sequence[ServerView], random: Random) -> int | None:
        """Return the index of the server to use; None when every server is full or out."""
