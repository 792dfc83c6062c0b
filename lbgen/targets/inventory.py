"""What a configuration file says of its pools: read back from the text, ours or changed by hand since.

Old and new are read by the same eyes, so a plan tells what is on disk and not what
lbgen remembers having written.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class ServerEntry(NamedTuple):
    """One server line; None: not said there."""

    address: str
    weight: int
    cap: int | None
    state: str
    backup: bool
    rest: tuple[str, ...]
    """All other parameters."""


class PoolEntry(NamedTuple):
    """One upstream or backend."""

    strategy: str
    servers: Mapping[str, ServerEntry]
    """By what the target tells them apart: the name (HAProxy), the address (NGINX)."""
    settings: tuple[str, ...]
    """All other lines."""


class Inventory(NamedTuple):
    """Everything that a plan can put into words."""

    pools: Mapping[str, PoolEntry]
    sections: Mapping[str, tuple[str, ...]]
    """All lines outside the pools, comments left out, by what they belong to, such as ``listener public``."""


def statements(text: str) -> Iterator[str]:
    """Yield the lines that say something, indented as they are.

    Comments do not, but for NGINX's listeners' names, nor does the name of the files in the live
    probe, which differs whenever anything does.
    """
    for line in text.splitlines():
        if line.strip() and (not line.lstrip().startswith("#") or LISTENER.search(line)):
            yield _LIVE.sub('{"status": "ok"}', line.rstrip())


LISTENER = re.compile(r"# (listener \S+)$")
"""A comment that counts: in NGINX it alone names the listener of a block."""
_LIVE = re.compile(r'\{"status": "ok", "digest": "[^"]*"(, "files": "[^"]*")?\}')


def frozen(sections: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """Return sections as an inventory holds them."""
    return {title: tuple(lines) for title, lines in sections.items()}


def number(text: str | None) -> int | None:
    """Return a number; None for what is none, such as a variable in a file that others wrote."""
    return int(text) if text and text.isdecimal() else None
