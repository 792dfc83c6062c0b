"""Secrets that were written into a fleet file by mistake: refused, and never repeated."""

from __future__ import annotations

import pytest

from lbgen.cli.problem_formats import FORMATS
from lbgen.cli.problem_text import text_report
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source

SECRET = "hunter2secret"
SMALL = "pools: {chat: {servers: [gpu-0:8000]}}\n"
POOL = "pools: {chat: {servers: [gpu-0:8000], %s}}\n"
ROUTE = SMALL + "listeners: {a: {bind: 127.0.0.1:80, routes: [{pool: chat, headers: {set: {%s}}}]}}\n"


def codes_and_reports(text: str, **options) -> tuple[list[str], str]:
    """The codes of all errors, and everything that any report says."""
    sources = [Source("fleet.yaml", text)]
    problems = load(sources, environ={}, **options).problems
    reports = [text_report(problems, sources), *(report(problems, sources) for report in FORMATS.values())]
    return [problem.code for problem in problems if problem.is_error], "\n".join(reports)


@pytest.mark.parametrize(
    "name", ["Authorization", "proxy-authorization", "X-Api-Key", "Api-Key", "COOKIE", "X-Auth-Token"]
)
@pytest.mark.parametrize(
    "place", [POOL % "headers: {set: {%s}}", POOL % "health: {path: /health, headers: {%s}}", ROUTE]
)
def test_literal_credential_in_a_header_is_refused_and_not_repeated(name, place) -> None:
    codes, said = codes_and_reports(place % f"{name}: Bearer {SECRET}")
    assert codes == ["literal-secret"]
    assert SECRET not in said
    assert "env:NAME" in said
    assert codes_and_reports(place % f"{name}: 12345678")[0] == ["literal-secret"]
    assert codes_and_reports(place % f"{name}: env:KEY")[0] == []


@pytest.mark.parametrize("header", ["X-Tier: batch", "X-Authorized: 'yes'", 'Cookie: ""', "Accept: '*/*'"])
def test_harmless_header_stays(header) -> None:
    assert codes_and_reports(ROUTE % header)[0] == []


@pytest.mark.parametrize(
    "written",
    [
        f"clients: {{t: {SECRET}}}",
        f"clients: {{key: {SECRET}}}",
        f"clients: {SECRET}",
        f"clients: {{t: {{keys: {SECRET}}}}}",
        f"clients: {{t: {{key: env:K, rate: {SECRET}}}}}",
        f"clients: {{t: {{key: env:K, priority: {SECRET}}}}}",
        "clients: {t: 4711471147114711}",
        f"metrics: {SECRET}",
        f"metrics: {{bind: 127.0.0.1:9000, auth: {SECRET}}}",
        f"metrics: {{bind: 127.0.0.1:9000, auth: {{user: '{SECRET} '}}}}",
        f"listeners: {{a: {{bind: 127.0.0.1:80, auth: {SECRET}}}}}",
        f"listeners: {{a: {{bind: 127.0.0.1:80, auth: {{upstream: {SECRET}}}}}}}",
    ],
)
def test_message_does_not_show_what_stands_where_a_secret_is_expected(written) -> None:
    problems = load([Source("fleet.yaml", SMALL + written)], environ={}).problems
    assert any(problem.is_error for problem in problems)
    for problem in problems:
        assert SECRET not in problem.message + problem.hint
        assert "4711471147114711" not in problem.message + problem.hint


def test_message_shows_what_stands_elsewhere() -> None:
    (problem,) = load([Source("fleet.yaml", "pools: nonsense")], environ={}).problems
    assert "the string nonsense" in problem.message


@pytest.mark.parametrize(
    "written",
    [
        f"clients: {{t: {{kee: {SECRET}}}}}",
        f"clients:\n  t:\n    kee: {SECRET}",
        f"clients:\n  t: {{kee: [{SECRET}]}}",
        f"clients:\n  t: {{kee: [{SECRET}}}]",
        f"clients:\n  t:\n    kee: '{SECRET}",
        f"metrics: {{bind: 127.0.0.1:9000, auth: {{user: u, pass: {SECRET}}}}}",
        f"metrics: {{bind: 127.0.0.1:9000, auth: {{user: {SECRET}, pass: env:A}}}}",
        f"klients: {{t: {{kee: {SECRET}}}}}",
        f"listeners: {{a: {{bind: 127.0.0.1:80, auth: {{upstream: {{sett: {SECRET}}}}}}}}}",
        f"x-anything: &a {{kee: {SECRET}}}\nclients: {{t: *a}}",
    ],
)
def test_line_is_shown_without_what_may_be_a_secret(written) -> None:
    codes, said = codes_and_reports(SMALL + written)
    assert codes
    assert SECRET not in said


def test_line_is_shown_with_what_is_no_secret() -> None:
    sources = [Source("fleet.yaml", SMALL + "clients: {t: {key: env:TEAM_KEY, prio: 3}}")]
    problems = load(sources, environ={}).problems
    assert "clients: {t: {key: env:TEAM_KEY, prio: 3}}" in text_report(problems, sources)


@pytest.mark.parametrize("written", ["0123456789", "${KEY}"])
def test_digits_of_a_long_number_with_a_leading_zero_are_not_repeated(written) -> None:
    sources = [Source("fleet.yaml", SMALL + f"clients:\n  t:\n    key: {written}")]
    problems = load(sources, environ={"KEY": "0123456789"}).problems
    assert "leading-zero" in [problem.code for problem in problems]
    assert "0123456789" not in text_report(problems, sources)


def test_a_name_that_no_variable_has_is_called_that() -> None:
    codes, said = codes_and_reports(SMALL + f"clients: {{t: {{key: 'env:TEAM {SECRET}'}}}}\n")
    assert "bad-value" in codes
    assert "literal-secret" not in codes
    assert "the name of an environment variable: letters, digits and '_'" in said
    assert SECRET not in said
