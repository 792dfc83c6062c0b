"""Problems as text, JSON, GitHub annotations and SARIF."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest

from lbgen.cli.problem_formats import FORMATS
from lbgen.cli.problem_text import text_report
from lbgen.fleet.text.source import Source
from lbgen.problems import Location, Problem, Severity, warning

TEXT = "pools:\n  chat:\n    serverz: [a:1]\n\tx: 日本 y\n    key: sk-very-secret-thing\n"
SOURCES = [Source("fleet.yaml", TEXT)]


def problem(line=3, column=5, code="unknown-key", message="there is no key", hint="did you mean 'servers'?"):
    return Problem(
        code, message, ("pools", "chat", "serverz"), hint=hint, location=Location("fleet.yaml", line, column)
    )


def test_text_has_place_line_caret_and_hint() -> None:
    assert text_report([problem()], SOURCES).split("\n") == [
        "fleet.yaml:3:5: error[unknown-key]: there is no key",
        "  3 |     serverz: [a:1]",
        "    |     ^",
        "  hint: did you mean 'servers'?",
    ]


def test_text_of_a_warning_without_hint_and_of_one_without_place() -> None:
    placed = warning("some-code", "so", ())._replace(location=Location("fleet.yaml", 2, 1))
    assert text_report([placed], SOURCES).startswith("fleet.yaml:2:1: warning[some-code]: so\n  2 | ")
    of_the_whole = placed._replace(location=Location("fleet.yaml", 1, 1), hint="write it")
    assert text_report([of_the_whole], SOURCES) == "fleet.yaml:1:1: warning[some-code]: so (write it)"
    assert text_report([Problem("c", "m")], SOURCES) == "error[c]: m"
    elsewhere = Problem("c", "m", location=Location("--set a", 1, 1))
    assert text_report([elsewhere], SOURCES) == "--set a:1:1: error[c]: m"


@pytest.mark.parametrize("column", [1, 2, 5, 99])
def test_caret_stands_below_its_column(column) -> None:
    _, line, caret, _ = text_report([problem(column=column)], SOURCES).split("\n")
    assert caret.index("^") == min(len(line), len("  3 | ") + column - 1)


def test_caret_after_wide_characters_and_a_tab() -> None:
    _, line, caret, _ = text_report([problem(line=4, column=8)], SOURCES).split("\n")
    assert line == "  4 |  x: 日本 y"
    assert caret == "    |  " + " " * len("x: ") + " " * 5 + "^"[:0] + "^"


def test_long_line_is_cut_around_the_caret() -> None:
    sources = [Source("fleet.yaml", "a: [" + "x:1, " * 1000 + "BAD]")]
    _, line, caret, _ = text_report([problem(line=1, column=5005)], sources).split("\n")
    assert len(line) < 130
    assert line[caret.index("^") :].startswith("BAD")


def test_control_characters_do_not_reach_the_terminal() -> None:
    sources = [Source("fleet.yaml", "a: \x1b[31mred\r\nb: \u202e\n")]
    report = text_report([problem(1, 4, message="bad \x1b[2J\nthing"), problem(2, 1)], sources)
    assert "\x1b" not in report
    assert "\u202e" not in report
    assert len(report.split("\n")) == 8


def test_colour_only_adds_escapes() -> None:
    coloured = text_report([problem()], SOURCES, color=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == text_report([problem()], SOURCES)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("clients: {a: {key: hunter2}}", "literal-secret"),
        ("clients: {a: {api_key: hunter2, rate: 5}}", "unknown-key"),
        ("x: [sk-hunter2hunter2]", "wrong-type"),
        ("password: 'hunter2'", "unknown-key"),
        ("Authorization: Bearer hunter2hunter2", "wrong-type"),
    ],
)
def test_secrets_are_not_repeated(text, code) -> None:
    column = text.index("key: ") + 6 if code == "literal-secret" else 1
    report = text_report([problem(1, column, code=code)], [Source("fleet.yaml", text)])
    assert "hunter2" not in report
    assert "•" in report


def test_references_and_files_are_shown() -> None:
    for line in ("key: env:TEAM", "key: privkey.pem", "strategy: {key: first_bytes}", 'key: "${K}"'):
        assert line in text_report([problem(1, 1, code="wrong-type")], [Source("fleet.yaml", line)])


def test_json_is_as_the_contract_says() -> None:
    records = json.loads(FORMATS["json"]([problem(), Problem("c", "m")], SOURCES))
    assert records[0] == {
        "code": "unknown-key",
        "severity": "error",
        "message": "there is no key",
        "file": "fleet.yaml",
        "line": 3,
        "column": 5,
        "path": "pools.chat.serverz",
        "hint": "did you mean 'servers'?",
    }
    assert records[1]["file"] is None
    assert records[1]["line"] is None
    assert json.loads(FORMATS["json"]([], SOURCES)) == []


def test_github_escapes_what_would_end_a_command() -> None:
    odd = problem(message="100%: a\r\nb, c", hint="")._replace(location=Location("a,b:c.yaml", 1, 2))
    assert FORMATS["github"]([odd], [Source("a,b:c.yaml", "")]) == (
        "::error file=a%2Cb%3Ac.yaml,line=1,col=2,title=unknown-key::100%25: a%0D%0Ab, c"
    )


def test_github_points_to_files_only() -> None:
    stdin = problem()._replace(location=Location("<stdin>", 3, 5), severity=Severity.WARNING)
    line = FORMATS["github"]([stdin], [Source("<stdin>", TEXT)])
    assert line.startswith("::warning title=unknown-key::<stdin>:3:5: there is no key%0Ahint: ")


TEXT_SCHEMA = {
    "type": "object",
    "required": ["text"],
    "properties": {"text": {"type": "string", "minLength": 1}},
}
POSITIVE = {"type": "integer", "minimum": 1}


def closed(required: list[str], **properties):
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


SARIF = closed(
    ["version", "runs"],
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"const": "2.1.0"},
    runs={
        "type": "array",
        "items": closed(
            ["tool", "results"],
            columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
            tool=closed(
                ["driver"],
                driver=closed(
                    ["name"],
                    name={"type": "string"},
                    version={"type": "string"},
                    semanticVersion={"type": "string"},
                    rules={
                        "type": "array",
                        "uniqueItems": True,
                        "items": closed(
                            ["id"],
                            id={"type": "string"},
                            shortDescription=TEXT_SCHEMA,
                            fullDescription=TEXT_SCHEMA,
                        ),
                    },
                ),
            ),
            results={
                "type": "array",
                "items": closed(
                    ["message"],
                    ruleId={"type": "string"},
                    ruleIndex={"type": "integer", "minimum": 0},
                    level={"enum": ["none", "note", "warning", "error"]},
                    message=TEXT_SCHEMA,
                    locations={
                        "type": "array",
                        "items": closed(
                            [],
                            physicalLocation=closed(
                                ["artifactLocation"],
                                artifactLocation=closed(
                                    ["uri"], uri={"type": "string", "pattern": r"^[A-Za-z0-9._~%/@+=,:-]+$"}
                                ),
                                region=closed(["startLine"], startLine=POSITIVE, startColumn=POSITIVE),
                            ),
                            logicalLocations={
                                "type": "array",
                                "items": closed([], fullyQualifiedName={"type": "string"}),
                            },
                        ),
                    },
                ),
            },
        ),
    },
)
"""The parts of the SARIF 2.1.0 schema that lbgen uses, and nothing that is not in there."""


def test_sarif_has_the_form_of_the_standard() -> None:
    sources = [*SOURCES, Source("dir/a b.yaml", ""), Source("/abs/ü.yaml", "")]
    problems = [
        problem(),
        warning("cap-below-balancers", "m", ("pools",), "h"),
        problem()._replace(location=Location("dir/a b.yaml", 1, 1)),
        problem(code="read-timeout")._replace(location=Location("/abs/ü.yaml", 1, 1)),
        problem()._replace(location=Location("--set a", 1, 1)),
        Problem("unheard-of", "m"),
    ]
    log = json.loads(FORMATS["sarif"](problems, sources))
    jsonschema.validate(log, SARIF)
    run = log["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [rules[result["ruleIndex"]] for result in run["results"]] == [p.code for p in problems]
    uris = [
        location["physicalLocation"]["artifactLocation"]["uri"]
        for result in run["results"]
        for location in result.get("locations", ())
        if "physicalLocation" in location
    ]
    assert uris == ["fleet.yaml", "dir/a%20b.yaml", "file:///abs/%C3%BC.yaml"]
    assert "--set a:1:1" in run["results"][4]["message"]["text"]


def test_sarif_without_problems_is_valid() -> None:
    log = json.loads(FORMATS["sarif"]([], SOURCES))
    jsonschema.validate(log, SARIF)
    assert log["runs"][0]["results"] == []
