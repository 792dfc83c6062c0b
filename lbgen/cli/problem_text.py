"""Problems as text for people: place, message, the line with a caret.

A line of a fleet file is shown with whatever may be a secret blotted out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.cli.blots import blot_out
from lbgen.fleet.confidential import is_confidential
from lbgen.problems import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lbgen.fleet.text.source import Source
    from lbgen.problems import Problem

_RED, _YELLOW, _BOLD, _DIM, _CYAN, _PLAIN = (
    f"\x1b[{code}m" for code in ("1;31", "1;33", "1", "2", "36", "0")
)
_STYLES = {Severity.ERROR: _RED, Severity.WARNING: _YELLOW, Severity.INFO: _CYAN}
_WIDTH = 110
"""The most characters of a source line that are shown."""
_CONFIDENTIAL = (
    r"(?i)(?:keys?|password|passwd|secret|token|authorization)[\"']?\s*:\s*"
    r"(?!\s|[\[{&*!]|system_prompt|first_bytes|[\"']?(?:env:|file:|\$\{)|[^\s,]*\.(?:pem|key|crt|cer)\b)([^,}\]\n]+)"
    r"|\b((?:sk-|hf_|Bearer\s+)[A-Za-z0-9._~+/=-]{6,})"
)


def text_report(
    problems: Iterable[Problem], sources: Sequence[Source], *, color: bool = False, width: int = 0
) -> str:
    """Return the problems for people: place, message, the line with a caret, and the hint.

    Messages and hints are wrapped to `width` columns; 0: not at all.
    """
    shown = list(problems)
    lines = {source.name: _lines(source.text) for source in sources}
    named = {problem.location.file for problem in shown if problem.location}
    for source in sources:
        if source.name in named:
            blot_out(lines[source.name], source, _unknown_keys(shown, source.name))
    for problem in shown:
        if problem.code == "literal-secret" and problem.location and problem.location.file in lines:
            _blot_from(lines[problem.location.file], problem.location.line, problem.location.column)
    return lines_report(shown, lines, color=color, width=width)


def lines_report(
    problems: Iterable[Problem], lines: Mapping[str, list[str]], *, color: bool = False, width: int = 0
) -> str:
    """Return the problems for people, with the lines of files, in which no secret stands any more."""
    return "\n".join(_text(problem, lines, color, width) for problem in problems)


def head_lines(problems: Iterable[Problem], *, color: bool = False) -> str:
    """Return the problems for people in one line each: place, code and message."""
    return "\n".join(_head(problem, _PAINTS[color]) for problem in problems)


def _unknown_keys(problems: Iterable[Problem], name: str) -> set[tuple[int, int]]:
    """Return line and column of the keys in a file that are not known."""
    return {
        (problem.location.line, problem.location.column)
        for problem in problems
        if problem.code == "unknown-key" and problem.location and problem.location.file == name
        if not _meant_openly(problem)
    }


def _meant_openly(problem: Problem) -> bool:
    """Tell whether an unknown key is close to one whose value is no secret, such as 'server' to 'servers'."""
    likely = re.fullmatch(r"did you mean '(\w+)'\?", problem.hint)
    if likely is None or re.search(
        r"(?i)key|pass|secret|token|auth|cred", f"{likely[1]} {problem.path[-1:]}"
    ):
        return False
    meant = (*problem.path[:-1], likely[1])
    return meant != ("listeners",) and not is_confidential(meant)  # below it are secrets, too


def _text(problem: Problem, lines: Mapping[str, list[str]], color: bool, width: int) -> str:
    paint, hint = _PAINTS[color], _one_line(problem.hint)
    if problem.severity is Severity.WARNING and problem.location and problem.location[1:] == (1, 1):
        # About what is not written: the file's first line would tell nobody anything.
        return _head(problem, paint, f" ({hint})" if hint else "", width)
    parts = [_head(problem, paint, width=width)]
    parts += _excerpt(problem, lines, paint)
    if hint:
        parts.append(f"  {paint('hint', _CYAN)}: {_wrapped(hint, len('  hint: '), width)}")
    return "\n".join(parts)


def _head(problem: Problem, paint: Callable[[str, str], str], more: str = "", width: int = 0) -> str:
    place = f"{problem.location}: " if problem.location else ""
    head = paint(f"{problem.severity.value}[{problem.code}]", _STYLES[problem.severity])
    before = len(f"{place}{problem.severity.value}[{problem.code}]: ")
    message = _wrapped(_one_line(problem.message) + more, before, width)
    return f"{paint(_printable(place), _BOLD)}{head}: {message}"


def _wrapped(text: str, before: int, width: int) -> str:
    """Return a text that begins in column `before`, wrapped between words to `width` columns; 0: as it is."""
    if not width or before + len(text) <= width:
        return text
    from textwrap import wrap  # noqa: PLC0415 - only for a terminal

    fits = before + len(text.split(" ", 1)[0]) <= width
    first = " " * before if fits else "    "
    lines = wrap(
        text, width, initial_indent=first, subsequent_indent="    ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    whole = "\n".join(lines)
    return whole[before:] if fits else f"\n{whole}"


def _excerpt(problem: Problem, lines: Mapping[str, list[str]], paint: Callable[[str, str], str]) -> list[str]:
    """Return the line that a problem is on, and a caret below its column."""
    place = problem.location
    if place is None or place.line > len(lines.get(place.file, ())):
        return []
    line = _without_secrets(lines[place.file][place.line - 1])
    column = min(place.column - 1, len(line))
    start = max(0, min(column - _WIDTH // 2, len(line) - _WIDTH))
    shown = line[start : start + _WIDTH]
    before = ("…" if start else "") + _printable(shown[: column - start])
    after = _printable(shown[column - start :]) + ("…" if start + _WIDTH < len(line) else "")
    number = str(place.line)
    gutter = " " * len(number)
    return [
        paint(f"  {number} | ", _DIM) + before + after,
        paint(f"  {gutter} | ", _DIM) + " " * _columns(before) + paint("^", _STYLES[problem.severity]),
    ]


def _lines(text: str) -> list[str]:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _blot_from(lines: list[str], number: int, column: int) -> None:
    """Blot out a secret from where it begins to the end of its line."""
    if number <= len(lines):
        line = lines[number - 1]
        lines[number - 1] = line[: column - 1] + "•" * len(line[column - 1 :].rstrip())


def _without_secrets(line: str) -> str:
    """Blot out what looks like a secret, in a line that is shown for another reason."""

    def blot(match: re.Match[str]) -> str:
        group = 1 if match[1] else 2
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        return match[0][:start] + "•" * (end - start) + match[0][end:]

    return re.sub(_CONFIDENTIAL, blot, line)


def _printable(text: str) -> str:
    """Return a text that cannot move the cursor; each character stays one."""
    return "".join(
        character if character.isprintable() else " " if character == "\t" else "\ufffd" for character in text
    )


def _one_line(text: str) -> str:
    return " ".join(_printable(part) for part in text.splitlines())


def _columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415 - only a line in another script needs it

    return sum(
        2 if unicodedata.east_asian_width(character) in "WF" else not unicodedata.combining(character)
        for character in text
    )


def _coloured(text: str, style: str) -> str:
    return f"{style}{text}{_PLAIN}" if text else ""


def _plain(text: str, _style: str) -> str:
    return text


_PAINTS = {True: _coloured, False: _plain}
