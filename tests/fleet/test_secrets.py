"""Secrets that were written into a fleet file by mistake: refused, and never repeated."""

from __future__ import annotations

import pytest

from lbgen.cli.problem_formats import FORMATS, text_report
from lbgen.fleet.load import load
from lbgen.fleet.source import Source

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
