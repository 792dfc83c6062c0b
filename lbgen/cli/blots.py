"""Which parts of a fleet file are blotted out when its lines are shown: whatever may be a secret.

Where the file can be read as YAML its values are known by their places; where not, by words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lbgen.fleet.confidential import is_confidential
from lbgen.fleet.text.source import parsed, paused_collector

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from lbgen.fleet.text.source import Node, Source
    from lbgen.problems import Path

_PLAIN_WORDS = {"none", "all", "strip", "pass", "null", "~", "true", "false"}
_REFERENCES = ("file:", "${")
_CONFIDENTIAL_KEY = r"[\"']?\b(?:clients|metrics)[\"']?\s*:(?=\s|$)"


class _Place(NamedTuple):
    """A value to look at: its node, its path, and whether it stands below an unknown key."""

    node: Node
    path: Path
    unknown: bool


def blot_out(lines: list[str], source: Source, unknown_keys: Collection[tuple[int, int]]) -> None:
    """Blot out in the lines of a file, in place, what may be a secret.

    That is below 'clients' and 'metrics.auth', and the value of every key that is not known, because
    that is where a secret under a misspelt key stands. `unknown_keys`: line and column, from 1.
    """
    if not unknown_keys and not re.search(r"\b(?:clients|metrics|auth)\b", source.text):
        return
    with paused_collector():
        root = parsed(source)
        if root is None:
            _blot_words(lines)
            return
        for node in _suspects(root, unknown_keys):
            _blot_node(lines, node)


def _suspects(root: Node, unknown_keys: Collection[tuple[int, int]]) -> Iterator[Node]:
    """Yield every scalar that may be a secret; lists and mappings that aliases repeat may come twice."""
    seen: set[tuple[int, bool]] = set()
    waiting = [_Place(root, (), unknown=False)]
    while waiting:
        node, path, unknown = waiting.pop()
        suspicious = unknown or is_confidential(path)
        if node.id == "scalar":
            if suspicious and not _is_harmless(node.value):
                yield node
            continue
        if (id(node), suspicious) in seen:
            continue
        seen.add((id(node), suspicious))
        if node.id == "sequence":
            waiting.extend(_Place(item, (*path, 0), unknown) for item in node.value)
            continue
        for key, value in node.value:
            mark = key.start_mark
            below = unknown or (mark.line + 1, mark.column + 1) in unknown_keys
            waiting.append(_Place(value, (*path, str(key.value)), below))


def _is_harmless(text: str) -> bool:
    """Tell whether a value is a reference, a word of the fleet file, or a number too short for a secret."""
    if text.startswith("env:"):
        return text.removeprefix("env:").isidentifier()
    return not text or text.startswith(_REFERENCES) or text in _PLAIN_WORDS or _is_short_number(text)


def _is_short_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= 5


def _blot_node(lines: list[str], node: Node) -> None:
    start, end = node.start_mark, node.end_mark
    for number in range(start.line, min(end.line + 1, len(lines))):
        line = lines[number]
        first = start.column if number == start.line else 0
        last = end.column if number == end.line else len(line)
        lines[number] = line[:first] + re.sub(r"\S", "•", line[first:last]) + line[last:]


def _blot_words(lines: list[str]) -> None:
    """Blot out every word that is no key, from 'clients' or 'metrics' to the next line as far left."""
    indent = -1
    for number, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        if line.strip() and depth <= indent:
            indent = -1
        key = re.search(_CONFIDENTIAL_KEY, line)
        start = 0 if indent >= 0 else key.end() if key else len(line)
        if indent < 0 and key:
            indent = depth
        lines[number] = line[:start] + re.sub(r"[^\s{}\[\],\"']+", _blotted_word, line[start:])


def _blotted_word(match: re.Match[str]) -> str:
    word = match[0]
    if word.endswith(":") or word in "-#|>" or _is_harmless(word):
        return word
    return "•" * len(word)
