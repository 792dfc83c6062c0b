"""Text from the fleet as words of NGINX's language.

NGINX reads quoted strings with backslash escapes and then, in many directives, replaces `$name`
inside them, whatever the quotes. So a dollar sign is refused here; text that may hold one is put
into a `geo` block, whose values are taken as they stand, and named by its variable (`Literals`).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_WORD = 2_000
"""NGINX refuses a word of 4096 bytes and more (seen on 1.22 and 1.30); escapes may double a character."""


@cache
def _pattern(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


def quote(text: str) -> Syntax:
    """Return one literal word; raises `ValueError` for `$`, control characters and overlong text."""
    if "$" in text:
        raise ValueError(f"{text!r} has a dollar sign, which NGINX would take for a variable")
    return _word(text)


def quote_plain(text: str) -> Syntax:
    """Return one literal word for a directive that replaces no variables, such as `location`."""
    return _word(text)


def _word(text: str) -> Syntax:
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise ValueError(f"{text!r} has control characters")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_WORD:
        raise ValueError(f"{text[:40]!r}… is longer than the {MAX_WORD} bytes that fit one word of NGINX")
    # Quoted whatever it is, but for the bare words that NGINX files are usually written with.
    if _pattern(r"[A-Za-z0-9_./:@+=,*-]+").fullmatch(text):
        return Syntax(text)
    mark = "'" if '"' in text and "'" not in text else '"'
    escaped = text.replace("\\", "\\\\").replace(mark, f"\\{mark}")
    return Syntax(f"{mark}{escaped}{mark}")


def regex_word(regex: str) -> Syntax:
    r"""Return a regular expression made by our code as a quoted word.

    Its backslashes are doubled, since NGINX unescapes `\\` in quoted strings, and its `$` stay:
    no directive that takes a regular expression looks for variables in it.
    """
    escaped = regex.replace("\\", "\\\\").replace('"', '\\"')
    return Syntax(f'"{escaped}"')


def header_name(name: str) -> Syntax:
    """Return the name of a header, which stands bare; raises `ValueError` for rarer characters."""
    if not _pattern(r"[A-Za-z0-9_-]+").fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a header")
    return Syntax(name)


def joined(text: str, variables: str) -> Syntax:
    """Return literal text with variables after it, as one word; raises `ValueError` as `quote` does."""
    if not text:
        return Syntax(f'"{variables}"')
    quote(text)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return Syntax(f'"{escaped}{variables}"')


def escape_regex(text: str) -> str:
    """Return a regular expression that matches just this text, with letters' case."""
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    # In brackets rather than behind a backslash, which would be doubled in the file and hard to read.
    if character in ".+*?()[]{}|$":
        return f"[{character}]"
    return f"\\{character}" if character in "\\^" else character


class Literals:
    """Texts that may hold anything, as variables; one variable for equal texts."""

    def __init__(self, prefix: str = "lb_text") -> None:
        self._prefix = prefix
        self._names: dict[str, str] = {}

    def word(self, text: str, *, always: bool = False) -> Syntax:
        """Return the text as one word for a directive that replaces variables.

        `always`: by variable even where it could stand as it is, for what must not stand there.
        """
        plain = "$" not in text and text.isprintable() and len(text.encode()) <= MAX_WORD
        if plain and not always:
            return quote(text) if text else Syntax('""')
        return Syntax('"' + "".join(f"${self._name(piece)}" for piece in _pieces(text)) + '"')

    def _name(self, piece: str) -> str:
        return self._names.setdefault(piece, f"{self._prefix}_{len(self._names) + 1}")

    def items(self) -> Iterator[tuple[Syntax, Syntax]]:
        """Yield variable and value for each `geo` block."""
        for piece, name in self._names.items():
            escaped = piece.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            yield Syntax(f"${name}"), Syntax(f'"{escaped}"')


def _pieces(text: str) -> Iterator[str]:
    # Four bytes a character at most, each perhaps doubled by its escape: 400 stay below 4096 bytes.
    for start in range(0, max(len(text), 1), 400):
        yield text[start : start + 400]
