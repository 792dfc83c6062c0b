"""Changed side files in words: whose keys came, went or changed, and never a key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.deploy.line_words import counted
from lbgen.files import body
from lbgen.targets.service import DROP_IN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.files import Change

_KEY = re.compile(r'^(?:([0-9A-F]{64}) ([\w.-]+)|"~\^(.+)\$" ([\w.-]+);)$')
"""A line of HAProxy's map of hashed keys, or of NGINX's map of keys."""


def side_words(change: Change, name: str) -> Iterator[str]:
    """Yield what became of a side file, by the keys in it where it holds some."""
    if body(change.old) == body(change.new):
        return
    old, new = _keys(change.old), _keys(change.new)
    told = list(_key_words(old, new))
    yield from told
    if not told:
        words = {"new": "new", "stale": "removed", "foreign": "replaced, though lbgen did not write it"}
        whose = ", for you to install: it says how" if name == DROP_IN else ""
        yield f"file {name}: {words.get(change.kind, 'changed')}{whose}"


def _keys(text: str) -> dict[str, set[str]]:
    """Return each client's keys, hashed or not."""
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if entry := _KEY.match(line.strip()):
            found.setdefault(entry[2] or entry[4], set()).add(entry[1] or entry[3])
    return found


def _key_words(old: dict[str, set[str]], new: dict[str, set[str]]) -> Iterator[str]:
    for client, keys in new.items():
        if client not in old:
            yield f"client {client}: new"
        elif old[client] != keys:
            come, gone = len(keys - old[client]), len(old[client] - keys)
            yield f"client {client}: {counted(come, gone, 'key')}"
    yield from (f"client {client}: removed" for client in old if client not in new)
