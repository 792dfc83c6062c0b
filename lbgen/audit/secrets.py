"""Keys and passwords that stand in a configuration: to be found, and not to be shown."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.problems import Location

_LITERAL = r"[^\s\"'$%{};,()]"
_SECRETS = re.compile(
    rf"""(?ix)
    \bbearer[ \\]+(?P<bearer>{_LITERAL}{{8,}})
    | (?<![A-Za-z0-9/])(?P<token>(?:sk-|hf_|gsk_|xai-|ghp_|nvapi-)[A-Za-z0-9_-]{{6,}})(?![\w-]|:\d)
    | (?:x-api-key|api-?key)["')]*\s+(?:-m\s+\S+\s+|-i\s+)*["']?(?P<header>{_LITERAL}{{8,}})["']?\s*(?:;|$)
    | ^\s*stats\s+auth\s+[^\s:]+:(?P<stats>\S+)
    | \binsecure-password\s+(?P<user>\S+)
    """
)


def secret_spans(line: str) -> Iterator[tuple[int, int]]:
    """Yield where secrets stand in a line, from 0; references to variables are none, nor are comments."""
    if "www-authenticate" in line.lower():
        return  # 'Bearer' is a word of its own there
    for match in _SECRETS.finditer(line):
        group = match.lastgroup or ""
        if not line.lstrip().startswith("#") and not match[group].startswith(("$", "%", '"$', "env:")):
            yield match.span(group)


def without_secrets(line: str) -> str:
    """Return a line with its secrets blotted out, comments included, each character one."""
    for match in _SECRETS.finditer(line):
        start, end = match.span(match.lastgroup or "")
        line = line[:start] + "•" * (end - start) + line[end:]
    return line


def blotted(lines: list[str], place: Location) -> None:
    """Blot out a key in the lines of its file, from where it begins to the end of its word."""
    line, start = lines[place.line - 1], place.column - 1
    quote = line[start - 1] if start and line[start - 1] in "\"'" else ""
    word = re.match(rf"[^{quote}]*" if quote else r"[^\s;]*", line[start:])
    end = start + (word.end() if word else 0)
    lines[place.line - 1] = line[:start] + "•" * (end - start) + line[end:]


def others_can_read(name: str) -> bool:
    """Tell whether a file is open to every user of its machine; True for what is no file here."""
    try:
        return bool(os.stat(name).st_mode & 0o004)  # noqa: PTH116 - a name as the user wrote it, '-' too
    except OSError:
        return True
