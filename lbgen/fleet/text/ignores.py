"""``# lbgen: ignore[code]`` at the end of a line, or on a line of its own above it.

Only warnings can be ignored. A code that does not exist, one that has nothing to ignore and
one that is an error are warnings themselves, since each means that somebody is mistaken.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lbgen.codes import CODES, FOUND_LATER
from lbgen.fields import nearest
from lbgen.fleet.rules import RULES
from lbgen.fleet.text.source import unix_lines
from lbgen.problems import Location, Problem, warning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lbgen.fleet.text.source import Source

_MARK = "lbgen:"


class _Ignore(NamedTuple):
    """One code in a comment."""

    code: str
    location: Location
    line: int
    """The line that it is for."""


def without_ignored(
    problems: Iterable[Problem], sources: Sequence[Source], *, complete: bool
) -> list[Problem]:
    """Return the problems without ignored warnings, with what is wrong with the comments.

    `complete`: every check has run, so that a comment which ignores nothing can be told.
    """
    found = list(problems)
    ignores: dict[tuple[str, int, str], _Ignore] = {}
    for source in sources:
        if _MARK not in source.text:
            continue
        for ignore in _ignores(source, found):
            ignores[source.name, ignore.line, ignore.code] = ignore
    if not ignores:
        return found
    used: dict[tuple[str, int, str], Problem] = {}
    kept = []
    for problem in found:
        key = (problem.location.file, problem.location.line, problem.code) if problem.location else None
        if key in ignores and key is not None:
            used[key] = problem
            if not problem.is_error:
                continue
        kept.append(problem)
    return kept + [
        complaint
        for key, ignore in ignores.items()
        if (complaint := _complaint(ignore, used.get(key), complete))
    ]


def known_codes() -> set[str]:
    """Return the code of everything that lbgen can find."""
    return {*CODES, *RULES}


def _complaint(ignore: _Ignore, problem: Problem | None, complete: bool) -> Problem | None:
    if problem is not None and problem.is_error:
        message = f"'{ignore.code}' is an error, and errors cannot be ignored"
        return warning("ignored-error", message, ())._replace(location=ignore.location)
    if problem is not None:
        return None
    if ignore.code not in known_codes():
        likely = nearest(ignore.code, known_codes())
        hint = f"did you mean '{likely}'?" if likely else "the reference lists all codes"
        message = f"there is no code '{ignore.code}' to ignore"
        return warning("unknown-code", message, (), hint)._replace(location=ignore.location)
    if not complete or ignore.code in FOUND_LATER:
        return None
    message = f"there is no '{ignore.code}' to ignore in line {ignore.line}"
    return warning("unused-ignore", message, (), "remove the comment")._replace(location=ignore.location)


def _ignores(source: Source, problems: list[Problem]) -> Iterator[_Ignore]:
    lines = unix_lines(source.text).split("\n")
    comment = re.compile(r"#\s*lbgen:\s*(\S.*)?$")
    for index, line in enumerate(lines):
        match = comment.search(line) if _MARK in line else None
        if not match:
            continue
        codes = re.match(r"ignore\[([^\]]*)\]", match[1] or "")
        if not codes:
            place = Location(source.name, index + 1, match.start() + 1)
            message = "write a comment for lbgen as '# lbgen: ignore[code]'"
            problems.append(warning("unknown-code", message, ())._replace(location=place))
            continue
        target = index if line[: match.start()].strip() else _next_line(lines, index)
        at = match.start(1) + codes.start(1)
        for part in codes[1].split(","):
            column = at + len(part) - len(part.lstrip()) + 1
            yield _Ignore(part.strip(), Location(source.name, index + 1, column), target + 1)
            at += len(part) + 1


def _next_line(lines: list[str], index: int) -> int:
    """Return the next line that holds more than a comment."""
    for later in range(index + 1, len(lines)):
        text = lines[later].strip()
        if text and not text.startswith("#"):
            return later
    return index
