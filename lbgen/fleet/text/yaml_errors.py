"""What the YAML parser complains about, in words for somebody who wrote a fleet file.

The parser names what it expected in its own grammar; the reader wants to know what to
change. Texts of libyaml 0.2.5 and PyYAML 6.0 are recognised, any other is passed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.problems import Location, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaml import YAMLError

_QUOTE = "quote it: a text that contains brackets, braces or ': ' needs quotes"
_INDENT = "check the indentation, and whether a text with special characters needs quotes"


class _Trouble(NamedTuple):
    """One complaint of the parser, with the text around it."""

    problem: str
    context: str
    mark: Any
    start: Any
    """Where the construct begins that could not be read; None where there is none."""
    lines: list[str]

    @property
    def line(self) -> str:
        return self.lines[self.mark.line] if self.mark.line < len(self.lines) else ""

    @property
    def before(self) -> str:
        return self.line[: self.mark.column]

    @property
    def rest(self) -> str:
        return self.line[self.mark.column :]

    @property
    def word(self) -> str:
        """What stands at the mark, up to a blank or bracket."""
        return next(iter(self.rest[1:].replace(",", " ").replace("]", " ").replace("}", " ").split()), "")


class _Words(NamedTuple):
    """What is said to the user; `at_start` points to where the construct begins."""

    message: str
    hint: str = ""
    at_start: bool = False
    code: str = "yaml-syntax"


def syntax_problem(error: YAMLError, text: str, name: str) -> Problem:
    """Return what the parser raised as a problem with a place and plain words."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return Problem("yaml-syntax", f"this is not YAML: {error}", location=Location(name, 1, 1))
    trouble = _Trouble(
        getattr(error, "problem", None) or "",
        getattr(error, "context", None) or "",
        mark,
        getattr(error, "context_mark", None),
        text.split("\n"),
    )
    words = _words(trouble)
    place = trouble.start if words.at_start and trouble.start else mark
    return Problem(words.code, words.message, hint=words.hint, location=_location(name, place, trouble.lines))


def _location(name: str, mark: Any, lines: list[str]) -> Location:  # noqa: ANN401 - PyYAML's stubs lack marks
    """Return a mark's place; the end of the last line with something on it for one behind the end."""
    if any(line.strip() for line in lines[mark.line :]):
        return Location(name, mark.line + 1, mark.column + 1)
    last = max((index for index, line in enumerate(lines) if line.strip()), default=0)
    return Location(name, last + 1, len(lines[last].rstrip()) or 1)


def _words(trouble: _Trouble) -> _Words:
    for sign, explain in _EXPLANATIONS:
        if sign in trouble.problem or sign in trouble.context:
            return explain(trouble)
    context = f" ({trouble.context})" if trouble.context else ""
    return _Words(f"this is not YAML: {trouble.problem}{context}", _INDENT)


def _bad_start(trouble: _Trouble) -> _Words:
    character = trouble.rest[:1]
    if character == "\t":
        return _Words("this line is indented with a tab, which YAML does not allow", "use spaces instead")
    return _Words(f"a value cannot begin with '{character}'", "quote it")


def _second_colon(trouble: _Trouble) -> _Words:
    if ": " in trouble.before:
        return _Words("a second ': ' in one line is not valid YAML", "quote it if it contains ': '")
    return _Words("a key is not allowed here: the line is indented too deeply", _INDENT)


def _flow(trouble: _Trouble) -> _Words:
    kind, opening, closing = ("list", "[", "]") if "sequence" in trouble.context else ("mapping", "{", "}")
    if trouble.start is None or trouble.mark.line == trouble.start.line:
        return _Words(f"this {kind} in '{opening}{closing}' cannot be read from here on", _QUOTE)
    message = f"the {kind} that begins here with '{opening}' is not closed with '{closing}'"
    return _Words(message, f"{_QUOTE}; or '{closing}' is missing", at_start=True)


def _alias(_: _Trouble) -> _Words:
    return _Words("'*' begins an alias in YAML, and no name follows", "quote it")


def _no_anchor(trouble: _Trouble) -> _Words:
    message = f"there is no anchor '&{trouble.word}' before this alias"
    return _Words(message, "quote it if it is a text that begins with '*'")


def _second_anchor(trouble: _Trouble) -> _Words:
    where = f"in line {trouble.mark.line + 1}"
    if trouble.start and trouble.start.line != trouble.mark.line:
        where = f"in lines {trouble.start.line + 1} and {trouble.mark.line + 1}"
    elif trouble.start:
        where = f"in columns {trouble.start.column + 1} and {trouble.mark.column + 1} of this line"
    return _Words(f"the anchor '&{trouble.word}' is set twice, {where}")


def _open_quote(trouble: _Trouble) -> _Words:
    if "quoted" in trouble.context:
        return _Words("the quote that opens here is never closed", at_start=True)
    return _Words("the file ends in the middle of a value", _INDENT)


def _bad_escape(_: _Trouble) -> _Words:
    return _Words(
        "this escape sequence is not valid in double quotes", "use single quotes, or double the backslash"
    )


def _stray(trouble: _Trouble) -> _Words:
    if trouble.before.rstrip()[-1:] in ("'", '"', "]", "}"):
        return _Words("nothing may follow the closing quote or bracket", "quote the whole value")
    return _Words("this line does not match the lines above it", _INDENT)


def _no_colon(_: _Trouble) -> _Words:
    return _Words(
        "this line is neither 'key: value' nor a list entry", "':' must be followed by a space", at_start=True
    )


def _no_content(trouble: _Trouble) -> _Words:
    if not trouble.rest:
        return _Words("the file ends in the middle of a value", "a closing ']' or '}' is missing")
    return _Words(f"a value cannot begin with '{trouble.rest[:1]}'", "quote it")


def _too_deep(_: _Trouble) -> _Words:
    return _Words("lists and mappings are nested too deeply", code="too-deep")


def _second_document(_: _Trouble) -> _Words:
    message = "a second YAML document begins here, but a fleet file contains one"
    return _Words(message, "to combine several files, name each of them", code="several-documents")


def _tag(_: _Trouble) -> _Words:
    return _Words(
        "this tag is not known", "quote it if it is a text that begins with '!'", code="unknown-tag"
    )


_EXPLANATIONS: tuple[tuple[str, Callable[[_Trouble], _Words]], ...] = (
    ("cannot start any token", _bad_start),
    ("mapping values are not allowed", _second_colon),
    ("nesting depth", _too_deep),
    ("undefined alias", _no_anchor),
    ("duplicate anchor", _second_anchor),
    ("while scanning an alias", _alias),
    ("another document", _second_document),
    ("unexpected end of stream", _open_quote),
    ("unexpected document indicator", _open_quote),
    ("unknown escape", _bad_escape),
    ("a tag", _tag),
    ("tag handle", _tag),
    ("a flow sequence", _flow),
    ("a flow mapping", _flow),
    ("could not find expected ':'", _no_colon),
    ("did not find expected key", _stray),
    ("did not find expected '-'", _stray),
    ("did not find expected node content", _no_content),
    ("did not find expected <document start>", _stray),
)
