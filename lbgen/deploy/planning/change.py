"""One change that putting a fleet into effect makes: a value, worded where it is shown."""

from __future__ import annotations

from typing import Any, NamedTuple

RUNTIME, RELOAD, RESTART, NONE = "runtime", "reload", "restart", "none"
"""How a change takes effect: over HAProxy's runtime socket, by a reload or a restart, not at all."""
FILES = "files."
"""What the attribute of a change begins with that is about a file and not about a key of the fleet."""
UNFINISHED = f"{FILES}unfinished"
"""The attribute of the change that makes up for an apply which was stopped."""


class Change(NamedTuple):
    """What is added, removed or changed, and what it was and becomes, in the words of the fleet file."""

    kind: str
    """``added``, ``removed`` or ``changed``."""
    attribute: str | None = None
    """The key below what it belongs to, such as ``queue.size``; None: the pool, listener or server itself."""
    before: Any = None
    after: Any = None
    pool: str | None = None
    server: str | None = None
    listener: str | None = None
    effect: str = RELOAD
