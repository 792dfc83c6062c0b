"""Known vulnerabilities: the data file, whom they concern, and what distributions mended."""

from __future__ import annotations

import time

import pytest

from lbgen.checker.vulnerabilities import Vulnerability, candidates, problems, vulnerabilities
from lbgen.vocabulary import Version

H2 = "server { listen 443 ssl; http2 on; }"


def ids(found: list[Vulnerability]) -> list[str]:
    return [one.id for one in found]


@pytest.mark.parametrize("one", vulnerabilities(), ids=lambda one: one.id)
def test_an_entry_of_the_data_file(one: Vulnerability) -> None:
    assert one.id.startswith("CVE-")
    assert one.program in {"nginx", "haproxy"}
    assert one.source.startswith("https://")
    assert one.what
    assert one.used
    assert all(first <= last for first, last in one.affected)
    mended = [Version.parse(text) for text in one.fixed]
    assert mended
    assert not any(first <= version <= last for version in mended for first, last in one.affected)
    assert all(one.mended(package) is True for package in one.debian)


def test_a_large_configuration_is_looked_through_in_no_time() -> None:
    """What looks ahead from every position takes minutes here."""
    line = "map $a $b { default 1; } server { listen 80; location / { proxy_pass http://a; } }\n"
    begun = time.process_time()
    for one in vulnerabilities():
        one.concerns(one.affected[0][0], line * 10_000)
    assert time.process_time() - begun < 5


def test_every_entry_is_there_once() -> None:
    assert len({one.id for one in vulnerabilities()}) == len(vulnerabilities())


@pytest.mark.parametrize(
    ("version", "text", "concerned"),
    [
        ("1.30.6", H2, True),
        ("1.30.7", H2, False),
        ("1.31.8", H2, True),
        ("1.31.9", H2, False),
        ("1.22.1", H2, True),
        ("1.30.6", "server { listen 80; }", False),
    ],
)
def test_version_and_use_decide(version: str, text: str, concerned: bool) -> None:
    assert ("CVE-2026-123007" in ids(candidates("nginx", Version.parse(version), [text]))) == concerned


def test_what_lbgen_renders_has_no_unnamed_capture_and_a_raw_line_may() -> None:
    rendered = 'map $a $b { "~(?<lb_x>.)" $lb_x; }'
    assert "CVE-2026-42533" not in ids(candidates("nginx", Version(1, 30, 3), [rendered]))
    assert "CVE-2026-42533" in ids(candidates("nginx", Version(1, 30, 3), [rendered, "rewrite ^/(.*) /$1;"]))


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("", "nginx 1.22.1 has known vulnerabilities"),
        ("1.22.1-9+deb12u10", "nginx 1.22.1-9+deb12u10 has known vulnerabilities"),
        ("1.22.1-9+deb12u11", None),
        ("1.22.1-9+deb12u12", None),
        ("1.22.1-9ubuntu3", "distributions mend them in older versions"),
    ],
)
def test_distributions_mend_old_versions(package: str, said: str | None) -> None:
    found = list(problems("nginx", "1.22.1", package, candidates("nginx", Version(1, 22, 1), [H2])))
    if said is None:
        assert found == []
    else:
        [problem] = found
        assert not problem.is_error
        assert said in f"{problem.message} {problem.hint}"
        assert "https://nginx.org/en/security_advisories.html" in problem.hint


def test_debians_own_fix_is_named_where_it_is_known() -> None:
    found = candidates("nginx", Version(1, 22, 1), [H2])
    [problem] = problems("nginx", "1.22.1", "1.22.1-9+deb12u9", found)
    assert "1.22.1-9+deb12u11" in problem.hint
