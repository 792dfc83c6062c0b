r"""How HAProxy splits a line into words: blanks, quotes, backslashes, and '#' for a comment.

As ``parse_line`` of 2.6 does: '#' begins a comment even inside a word unless it is quoted or escaped;
nothing is special in single quotes; a backslash before anything but the characters below stays.
"""

from __future__ import annotations

_ESCAPES = {" ": " ", "\\": "\\", "#": "#", "n": "\n", "r": "\r", "t": "\t", "'": "'", '"': '"'}
_HEX = 4
"""Characters of '\\x2f'."""


def split_words(line: str) -> tuple[tuple[str, ...], str | None, str]:
    """Return the words, the comment behind them (None: there is none), and what is wrong; empty: nothing."""
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    at = 0
    while at < len(line):
        one = line[at]
        if one == "\\" and quote != "'":
            text, width = _escaped(line, at, quote)
            word = word or []
            word.append(text)
            at += width
            continue
        at += 1
        if one == quote:
            quote = ""
        elif quote or one not in "'\"# \t\r":
            word = word or []
            word.append(one)
        elif one in "'\"":
            quote, word = one, word or []
        elif one == "#":
            return _closed(words, word), line[at:], ""
        elif word is not None:
            words.append("".join(word))
            word = None
    fault = f"a {quote} has no second one" if quote else ""
    return _closed(words, word), None, fault


def _closed(words: list[str], word: list[str] | None) -> tuple[str, ...]:
    return tuple(words) if word is None else (*words, "".join(word))


def _escaped(line: str, at: int, quote: str) -> tuple[str, int]:
    """Return what a backslash and what follows it stand for, and how many characters that takes."""
    following = line[at + 1 : at + 2]
    if following == "x" and len(line) >= at + _HEX:
        digits = line[at + 2 : at + _HEX]
        if all(digit in "0123456789abcdefABCDEF" for digit in digits):
            return chr(int(digits, 16)), _HEX
    if following == "$" and quote:
        return "$", 2
    if following in _ESCAPES and following:
        return _ESCAPES[following], 2
    return "\\", 1
