"""The README's figures are those of docs/measured.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PLACE = re.compile(r"(?<=<!-- measured -->\n).*?(?=<!-- /measured -->)", re.DOTALL)
COLUMNS = {
    "round robin P99": "round robin",
    "least conn P99": "least connections",
    "random two P99": "two random choices",
}
PROGRAMS = {"nginx": "NGINX", "haproxy": "HAProxy"}


def table() -> str:
    """Return the README's table, made from the page of figures."""
    text = (ROOT / "docs" / "measured.md").read_text()
    versions = dict(re.findall(r"(\w+-(?:nginx|haproxy)): (\d[\d.]*\d)", text))
    (section,) = re.findall(
        r"^## P99 of whole answers .* 80 % load\n\n(.*?)\n\n", text + "\n", re.MULTILINE | re.DOTALL
    )
    names, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines()]
    lines = [
        (
            PROGRAMS[name.split("-")[1]],
            versions[name],
            *(f"{row[names.index(column)]} s" for column in COLUMNS),
        )
        for row in rows
        for name in row[:1]
    ]
    lines.sort(key=lambda line: (line[0] != "NGINX", [int(part) for part in line[1].split(".")]))
    head = [
        "| 99 of 100 answers are complete within | " + " | ".join(COLUMNS.values()) + " |",
        "|---|---|---|---|",
    ]
    body = [f"| {program} {version} | " + " | ".join(figures) + " |" for program, version, *figures in lines]
    return "\n".join([*head, *body]) + "\n"


def test_the_readme_shows_what_was_measured(request: pytest.FixtureRequest) -> None:
    text = README.read_text()
    if request.config.getoption("--update-golden"):
        README.write_text(PLACE.sub(table().replace("\\", r"\\"), text))
    assert PLACE.findall(README.read_text()) == [table()], "pytest tests/docs --update-golden writes it anew"
