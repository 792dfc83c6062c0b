"""Problems as text for people, as JSON, as GitHub annotations and as SARIF 2.1.0.

`lbgen.cli.problem_text` is for a terminal; `FORMATS` are for programs. None of them repeats a secret:
a line of a fleet file is shown with whatever may be one blotted out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen import __version__
from lbgen.problems import Severity, path_text, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lbgen.fleet.text.source import Source
    from lbgen.problems import Problem

_ELSEWHERE = {
    Severity.ERROR: ("error", "error"),
    Severity.WARNING: ("warning", "warning"),
    Severity.INFO: ("notice", "note"),
}
"""What GitHub and SARIF call a severity."""


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
