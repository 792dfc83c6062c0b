"""Each rule of the audit has a file that fires it, at the line that it says, and one that does not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.audit import audit
from lbgen.audit.registry import AUDIT_RULES
from lbgen.audit.rule import Running
from lbgen.codes import CODES
from lbgen.fleet.rules import RULES
from lbgen.readers.files import read_configurations
from lbgen.vocabulary import Version
from tests.pages.audit import page

if TYPE_CHECKING:
    from lbgen.problems import Problem

HERE = Path(__file__).parent
KINDS = {"conf": "nginx", "cfg": "haproxy"}
PAIRS = [
    (code, kind)
    for code, rule in AUDIT_RULES.items()
    for kind, target in KINDS.items()
    if (rule.nginx if target == "nginx" else rule.haproxy)
]
OLD = {"nginx": Running(Version(1, 30, 0)), "haproxy": Running(Version(2, 6, 12))}
"""What has the holes that the files of 'known-hole' reach."""


def found(path: Path, code: str) -> list[Problem]:
    running = {KINDS[path.suffix[1:]]: OLD[KINDS[path.suffix[1:]]]} if code == "known-hole" else {}
    report = audit(read_configurations([str(path)]), running)
    assert report.notes == ()
    return list(report.problems)


def said(problem: Problem) -> str:
    return f"{problem.location}: {problem.severity}[{problem.code}]: {problem.message}"


@pytest.mark.parametrize(("code", "kind"), PAIRS)
def test_fires_where_it_says_and_alone(code: str, kind: str) -> None:
    path = HERE / code / f"fires.{kind}"
    expected = re.findall(r"\d+", path.read_text().split("\n", 1)[0])
    problems = [one for one in found(path, code) if code != "known-hole" or one.code == code]
    assert [one.code for one in problems] == [code] * len(problems), [said(one) for one in problems]
    lines = {str(one.location.line) for one in problems if one.location}
    if code == "known-hole":
        assert {"CVE-2026-42945", "CVE-2025-32464"} & set(re.findall(r"CVE-[\d-]+\d", str(problems)))
        return
    assert lines == set(expected), [said(one) for one in problems]


@pytest.mark.parametrize(("code", "kind"), PAIRS)
def test_is_quiet_where_it_should_be(code: str, kind: str) -> None:
    problems = found(HERE / code / f"quiet.{kind}", code)
    if code == "known-hole":  # other holes of such an old version are not this file's
        problems = [one for one in problems if re.search(r"CVE-2026-42945|CVE-2025-32464", one.message)]
    assert [said(one) for one in problems] == []


def test_no_folder_without_a_rule() -> None:
    pairs = {(path.parent.name, path.suffix[1:]) for path in HERE.glob("*/fires.*")}
    assert pairs == set(PAIRS)


def test_codes_are_of_the_audit_alone() -> None:
    assert not set(AUDIT_RULES) & (set(CODES) | set(RULES))


@pytest.mark.parametrize("code", AUDIT_RULES)
def test_every_rule_says_what_why_and_what_lbgen_does(code: str) -> None:
    rule = AUDIT_RULES[code]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code)
    assert rule.why.endswith(".")
    assert not rule.summary.endswith(".")
    assert not rule.rendered.endswith(".")
    assert rule.rendered


def test_the_reference_is_up_to_date(request: pytest.FixtureRequest) -> None:
    reference = HERE.parents[1] / "docs" / "reference" / "audit.md"
    if request.config.getoption("--update-golden"):
        reference.write_text(page())
    assert reference.read_text() == page(), "pytest tests/audit --update-golden writes it anew"
