"""How NGINX's configuration splits into words, and words into statements, each with its place.

The words are crossplane's, with the columns that it does not tell.
"""

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


class Statement(NamedTuple):
    """A directive without its block, and what ends it; a closing brace has no words."""

    words: tuple[Token, ...]
    comments: tuple[str, ...]
    end: Token | None


def statements(name: str, text: str, wrong: Callable[[str, Location], None]) -> Iterator[Statement]:
    """Yield the statements in order, each with the comments above it and behind it on its line.

    `wrong` is told what ends them too early, and where.
    """
    statement: Statement | None = None
    comments: list[str] = []
    words: list[Token] = []
    for token in _tokens(name, text, wrong):
        if statement is not None:  # it waits for a comment behind it
            behind = token.is_comment and token.location.line == statement.end.location.line  # type: ignore[union-attr]
            said = (*statement.comments, token.text[1:].strip()) if behind else statement.comments
            yield statement._replace(comments=said)
            statement = None
            if behind:
                continue
        if token.is_end:
            statement = Statement(tuple(words), tuple(comments), token)
            words, comments = [], []
        elif token.is_comment:
            comments.append(token.text[1:].strip())
        elif "${" in token.text and not token.quoted:
            # crossplane takes the blank behind '}' for a part of the word.
            words += [token._replace(text=part) for part in token.text.split()]
        else:
            words.append(token)
    if statement is not None:
        yield statement
    if words:
        yield Statement(tuple(words), tuple(comments), None)


def _tokens(name: str, text: str, wrong: Callable[[str, Location], None]) -> Iterator[Token]:
    """Yield crossplane's tokens with the columns that it does not tell."""
    import crossplane  # noqa: PLC0415 - takes 20 ms
    from crossplane.errors import NgxParserSyntaxError  # noqa: PLC0415

    lines = text.split("\n")
    nul = next((number for number, one in enumerate(lines, 1) if "\0" in one), None)
    if nul is not None:
        wrong("a NUL character", Location(name, nul, lines[nul - 1].index("\0") + 1))
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
        wrong(str(error.strerror), Location(name, error.lineno or 1, 1))
