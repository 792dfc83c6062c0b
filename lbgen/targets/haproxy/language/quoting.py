"""Text from the fleet as words of HAProxy's language.

Between single quotes every character stands for itself: backslash, `#`, blanks, and `$`, which
double quotes would take for an environment variable. Some words are log formats, in which `%`
begins a sample: `format_word` doubles it. Arguments of samples are read once more, with rules of
their own; text from the fleet never goes there, but through a map file or a variable.
"""

from __future__ import annotations

import re
from functools import cache

from lbgen.targets.spec import Syntax

MAX_WORD = 8_000
"""A line and its words have to fit HAProxy's buffer, 16 KB by default."""
_BREAKS = "\u2028\u2029"
"""Line and paragraph separators, which some editors and logs take for the end of a line."""


@cache
def _bare() -> re.Pattern[str]:
    return re.compile(r"[A-Za-z0-9_./:@+=,*-]+")


def quote(text: str) -> Syntax:
    """Return one literal word; raises `ValueError` for what no line can hold."""
    if any(ord(character) < 32 or 127 <= ord(character) < 160 or character in _BREAKS for character in text):
        raise ValueError(f"{text!r} has control characters")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_WORD:
        raise ValueError(f"{text[:40]!r}… is longer than {MAX_WORD} bytes")
    if text and _bare().fullmatch(text):
        return Syntax(text)
    inside = text.replace("'", "'\\''")
    return Syntax(f"'{inside}'")


def format_word(text: str) -> Syntax:
    """Return one literal word for a place where HAProxy expects a log format; raises `ValueError`."""
    return quote(text.replace("%", "%%"))


def text_word(text: str) -> Syntax:
    """Return any text as one literal word: what cannot be printed is written by its bytes.

    Raises `ValueError` for NUL, which ends a word, and for text that does not fit a line.
    """
    if "\0" in text:
        raise ValueError(f"{text!r} has a NUL character")
    pieces = []
    run = ""
    for character in text:
        if character.isprintable():
            run += character
            continue
        pieces.append(quote(run) if run else "")
        pieces.append("".join(f"\\x{octet:02x}" for octet in character.encode("utf-8", "surrogatepass")))
        run = ""
    pieces.append(quote(run) if run or not text else "")
    return Syntax("".join(pieces))
