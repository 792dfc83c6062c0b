"""Rules that change the path, as prefixes that routes take off or put before it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lbgen.imports.paths import Match, rewritten_path

if TYPE_CHECKING:
    from lbgen.readers.haproxy import Line

_REGSUB = re.compile(
    r"%\[path,regsub\(\^(?:\\?(/[A-Za-z0-9._~/-]*?))(/\?|/)?,((?:/[A-Za-z0-9._~/-]*)?)(?:,\w*)?\)\]"
)


class Rewrite(NamedTuple):
    """What one rule does to the path."""

    strip: str
    """The prefix that goes; empty: none."""
    add: str


def rewrite_of(line: Line) -> Rewrite | None:
    """Return what ``http-request set-path`` or ``replace-path`` does; None for more than prefixes."""
    action, words = line.words[1], line.words[2:]
    if action == "set-path" and words:
        added = re.fullmatch(r"(/[A-Za-z0-9._~/-]*)%\[path\]", words[0])
        if added:
            return Rewrite("", added[1].rstrip("/"))
        found = _REGSUB.fullmatch(words[0])
        return Rewrite(found[1].rstrip("/"), found[3].rstrip("/")) if found else None
    if action != "replace-path" or len(words) < 2:
        return None
    pattern = words[0].replace("(/)?(.*)", "/(.*)").replace("(/.*)?", "(/.*)")
    replacement = re.sub(r"^/?\\2$", "/$1", words[1])
    replacement = replacement.replace("\\2", "$1").replace("\\1", "$1")
    taken = re.match(r"\^?(/[A-Za-z0-9._~-]+(?:/[A-Za-z0-9._~-]+)*)", pattern)
    match = Match(prefixes=(taken[1],) if taken else ("/",))
    prefixes = rewritten_path(match, pattern, replacement)
    if prefixes is None:
        return None
    return Rewrite(match.prefixes[0] if prefixes.strip else "", prefixes.add)
