"""Problems as text for people, as JSON, as GitHub annotations and as SARIF 2.1.0.

`text_report` is for a terminal; `FORMATS` are for programs. None of them repeats a secret:
a line of a fleet file is shown with whatever may be one blotted out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lbgen import __version__
from lbgen.cli.blots import blot_out
from lbgen.fleet.confidential import is_confidential
from lbgen.problems import Severity, path_text, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lbgen.fleet.text.source import Source
    from lbgen.problems import Problem

_RED, _YELLOW, _BOLD, _DIM, _CYAN, _PLAIN = (
    f"\x1b[{code}m" for code in ("1;31", "1;33", "1", "2", "36", "0")
)
_STYLES = {Severity.ERROR: _RED, Severity.WARNING: _YELLOW, Severity.INFO: _CYAN}
_ELSEWHERE = {
    Severity.ERROR: ("error", "error"),
    Severity.WARNING: ("warning", "warning"),
    Severity.INFO: ("notice", "note"),
}
"""What GitHub and SARIF call a severity."""
_WIDTH = 110
"""The most characters of a source line that are shown."""
_CONFIDENTIAL = (
    r"(?i)(?:keys?|password|passwd|secret|token|authorization)[\"']?\s*:\s*"
    r"(?!\s|[\[{&*!]|system_prompt|first_bytes|[\"']?(?:env:|file:|\$\{)|[^\s,]*\.(?:pem|key|crt|cer)\b)([^,}\]\n]+)"
    r"|\b((?:sk-|hf_|Bearer\s+)[A-Za-z0-9._~+/=-]{6,})"
)


def text_report(problems: Iterable[Problem], sources: Sequence[Source], *, color: bool = False) -> str:
    """Return the problems for people: place, message, the line with a caret, and the hint."""
    shown = list(problems)
    lines = {source.name: _lines(source.text) for source in sources}
    named = {problem.location.file for problem in shown if problem.location}
    for source in sources:
        if source.name in named:
            blot_out(lines[source.name], source, _unknown_keys(shown, source.name))
    for problem in shown:
        if problem.code == "literal-secret" and problem.location and problem.location.file in lines:
            _blot_from(lines[problem.location.file], problem.location.line, problem.location.column)
    return lines_report(shown, lines, color=color)


def lines_report(problems: Iterable[Problem], lines: Mapping[str, list[str]], *, color: bool = False) -> str:
    """Return the problems for people, with the lines of files, in which no secret stands any more."""
    return "\n".join(_text(problem, lines, color) for problem in problems)


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


def _text(problem: Problem, lines: Mapping[str, list[str]], color: bool) -> str:
    paint = _PAINTS[color]
    place = f"{problem.location}: " if problem.location else ""
    style = _STYLES[problem.severity]
    head = paint(f"{problem.severity.value}[{problem.code}]", style)
    parts = [f"{paint(_printable(place), _BOLD)}{head}: {_one_line(problem.message)}"]
    if problem.severity is Severity.WARNING and problem.location and problem.location[1:] == (1, 1):
        # About what is not written: the file's first line would tell nobody anything.
        return parts[0] + (f" ({_one_line(problem.hint)})" if problem.hint else "")
    parts += _excerpt(problem, lines, paint)
    if problem.hint:
        parts.append(f"  {paint('hint', _CYAN)}: {_one_line(problem.hint)}")
    return "\n".join(parts)


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


def json_report(problems: Iterable[Problem], _sources: Sequence[Source] = ()) -> str:
    """Return the problems as a JSON list."""
    import json  # noqa: PLC0415 - text needs none of it

    return json.dumps([_record(problem) for problem in problems], indent=2, ensure_ascii=False)


def _record(problem: Problem) -> dict[str, Any]:
    place = problem.location
    return {
        "code": problem.code,
        "severity": problem.severity.value,
        "message": problem.message,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "path": path_text(problem.path),
        "hint": problem.hint,
    }


def github_report(problems: Iterable[Problem], sources: Sequence[Source] = ()) -> str:
    """Return the problems as workflow commands, which GitHub shows beside the lines."""
    files = _files(sources)
    return "\n".join(_annotation(problem, files) for problem in problems)


def _annotation(problem: Problem, files: set[str]) -> str:
    place = problem.location
    properties = {"title": problem.code}
    message = problem.message + (f"\nhint: {problem.hint}" if problem.hint else "")
    if place is not None and place.file in files:
        properties = {"file": place.file, "line": str(place.line), "col": str(place.column), **properties}
    elif place is not None:
        message = f"{place}: {message}"
    written = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    return f"::{_ELSEWHERE[problem.severity][0]} {written}::{_escaped(message)}"


def _escaped(text: str, further: str = "") -> str:
    """Escape as the runner of GitHub Actions reads it: '%' first, then ends of lines."""
    for character in "%\r\n" + further:
        text = text.replace(character, f"%{ord(character):02X}")
    return printable(text)


def sarif_report(problems: Iterable[Problem], sources: Sequence[Source] = ()) -> str:
    """Return the problems in OASIS's Static Analysis Results Interchange Format, version 2.1.0."""
    import json  # noqa: PLC0415 - text needs none of it

    shown = list(problems)
    codes = sorted({problem.code for problem in shown})
    files = _files(sources)
    driver = {
        "name": "lbgen",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_sarif_rule(code) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(problem, codes, files) for problem in shown],
    }
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(log, indent=2, ensure_ascii=False)


def _sarif_rule(code: str) -> dict[str, Any]:
    from lbgen.audit.registry import AUDIT_RULES  # noqa: PLC0415 - text needs none of it
    from lbgen.codes import CODES  # noqa: PLC0415
    from lbgen.fleet.rules import RULES  # noqa: PLC0415

    known = RULES.get(code) or AUDIT_RULES.get(code)
    summary = known.summary if known else CODES.get(code, "")
    rule: dict[str, Any] = {"id": code}
    if summary:
        rule["shortDescription"] = {"text": summary}
    if known:
        rule["fullDescription"] = {"text": known.why}
    return rule


def _sarif_result(problem: Problem, codes: list[str], files: set[str]) -> dict[str, Any]:
    message = problem.message + (f"\nHint: {problem.hint}" if problem.hint else "")
    location: dict[str, Any] = {}
    place = problem.location
    if place is not None and place.file in files:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": _uri(place.file)},
            "region": {"startLine": place.line, "startColumn": place.column},
        }
    elif place is not None:
        message = f"{place}: {message}"
    if problem.path:
        location["logicalLocations"] = [{"fullyQualifiedName": path_text(problem.path)}]
    result: dict[str, Any] = {
        "ruleId": problem.code,
        "ruleIndex": codes.index(problem.code),
        "level": _ELSEWHERE[problem.severity][1],
        "message": {"text": message},
    }
    if location:
        result["locations"] = [location]
    return result


def _uri(name: str) -> str:
    """Return a file's name as a URI reference: relative as it is, absolute with its scheme."""
    from urllib.parse import quote  # noqa: PLC0415 - text needs none of it

    path = quote(name.removeprefix("./"), safe="/@+=,~-._", errors="surrogateescape")
    return f"file://{path}" if path.startswith("/") else path


def _files(sources: Sequence[Source]) -> set[str]:
    """Return the names of sources that are files, which an annotation can point to."""
    return {source.name for source in sources if not source.name.startswith("<")}


FORMATS: Mapping[str, Callable[[Iterable[Problem], Sequence[Source]], str]] = {
    "json": json_report,
    "github": github_report,
    "sarif": sarif_report,
}
"""What a program can read, by the name that ``--format`` takes."""
