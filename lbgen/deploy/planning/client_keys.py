"""Whose keys a file of client keys holds: enough to say whose changed, and never a key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEY = re.compile(r'^(?:([0-9A-F]{64}) ([\w.-]+)|"~\^(.+)\$" ([\w.-]+);)$')
"""A line of HAProxy's map of hashed keys, or of NGINX's map of keys."""


def clients_changed(old: str, new: str) -> Iterator[str]:
    """Yield the names of clients whose keys in these files differ."""
    before, after = _keys(old), _keys(new)
    yield from (name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name))


def _keys(text: str) -> dict[str, set[str]]:
    """Return each client's keys, hashed or not."""
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if entry := _KEY.match(line.strip()):
            found.setdefault(entry[2] or entry[4], set()).add(entry[1] or entry[3])
    return found
