"""The words of an NGINX configuration, as crossplane tells them, each with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ENDS = frozenset("{};")


class Token(NamedTuple):
    """A word, a comment, or one of '{', '}' and ';'."""

    text: str
    location: Location
    quoted: bool = False

    @property
    def is_comment(self) -> bool:
        return self.text.startswith("#") and not self.quoted

    @property
    def is_end(self) -> bool:
        return self.text in _ENDS and not self.quoted


def tokens(name: str, text: str, problem: Callable[[str, str, Location], None]) -> Iterator[Token]:
    """Yield crossplane's tokens with the columns that it does not tell."""
    import crossplane  # noqa: PLC0415 - takes 20 ms
    from crossplane.errors import NgxParserSyntaxError  # noqa: PLC0415

    lines = text.split("\n")
    nul = next((number for number, one in enumerate(lines, 1) if "\0" in one), None)
    if nul is not None:
        place = Location(name, nul, lines[nul - 1].index("\0") + 1)
        problem("configuration-syntax", "a NUL character", place)
        return
    line, column = 0, 0
    try:
        for token, number, quoted in crossplane.lex_string(text, name):
            if number != line:
                line, column = number, 0
            written = lines[line - 1] if line <= len(lines) else ""
            at = written.find(token.split("\n", 1)[0], column)
            at = at if at >= 0 else column
            yield Token(token, Location(name, max(line, 1), at + 1), quoted)
            column = at + len(token)
    except NgxParserSyntaxError as error:
        problem("configuration-syntax", str(error.strerror), Location(name, error.lineno or 1, 1))
