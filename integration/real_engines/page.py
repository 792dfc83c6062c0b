"""docs/engines-tried.md: a section for each engine, written by the run that tried it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from integration.real_engines.outcomes import ENGINE, Outcome
from lbgen.engines import ENGINES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

HEAD = """\
# Engines tried

Real engines behind the files that lbgen renders: two servers with a tiny model of random weights, on one
machine without a GPU, and the balancers of that machine before them. `python -m integration.real_engines`
makes every check and writes this page; [the table of engines](reference/engines.md) says which presets were
tried so. Each check sees what clients get and what the engine counts itself; times are of a small and busy
machine.
"""
_SECTION = re.compile(r"^## .*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


class Tried(NamedTuple):
    """What was run."""

    preset: str
    version: str
    origin: str
    date: str
    balancers: Mapping[str, str]

    @property
    def title(self) -> str:
        """The section's heading."""
        return f"## {ENGINES[self.preset].title}"


def write(path: Path, what: Tried, outcomes: Sequence[Outcome]) -> None:
    """Put an engine's section into the page, in place of the one that was there.

    Of a run of some checks, the others of the same version stay as they were.
    """
    kept = _sections(path)
    rows = {_of(row): row for row in _rows(kept.get(what.title, ""), what.version)}
    rows |= {_of(row): row for row in map(_row, outcomes)}
    kept[what.title] = section(what, rows.values())
    ordered = [kept.pop(f"## {engine.title}") for engine in ENGINES.values() if f"## {engine.title}" in kept]
    path.write_text("\n".join([HEAD, *(f"{one.strip()}\n" for one in (*ordered, *kept.values()))]))


def write_predicted(path: Path, what: Tried, lines: Sequence[str]) -> None:
    """Put what was predicted and measured of an engine at the end of the page, in place of what was there."""
    title = f"## Predicted: {what.title.removeprefix('## ')}"
    kept = _sections(path)
    ran = f"Version {what.version}, on {what.date}; {os.cpu_count()} cores. Each server had one of them,"
    kept[title] = "\n".join(
        [title, "", f"{ran}\nwhich balancer and load shared with the servers.", "", *lines]
    )
    path.write_text("\n".join([HEAD, *(f"{one.strip()}\n" for one in kept.values())]))


def section(what: Tried, rows: Iterable[str]) -> str:
    """Return a section."""
    balancers = ", ".join(f"{name} {version}" for name, version in what.balancers.items())
    lines = [
        what.title, "",
        f"Version {what.version} ({what.origin}), on {what.date}; {balancers}; {os.cpu_count()} cores.", "",
        "| check | behind | result | what was seen |", "|---|---|---|---|", *rows,
    ]  # fmt: skip
    return "\n".join(lines)


def _row(one: Outcome) -> str:
    cells = (one.check, "itself" if one.where == ENGINE else one.where, one.verdict, one.detail)
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _rows(text: str, version: str) -> list[str]:
    """Return the rows of a section, if it is of this version."""
    if f"\nVersion {version} (" not in text:
        return []
    return [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| check ")]


def _of(row: str) -> tuple[str, ...]:
    return tuple(row.split(" | ")[:2])


def _sections(path: Path) -> dict[str, str]:
    return {_title(one): one for one in _SECTION.findall(path.read_text())} if path.exists() else {}


def _title(text: str) -> str:
    return text.partition("\n")[0]


def versions(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield of a page the title of each engine, its version and the date."""
    yield from re.findall(r"^## (.+)\n\nVersion (.+?) \(.*?\), on (\d{4}-\d\d-\d\d);", text, re.MULTILINE)
