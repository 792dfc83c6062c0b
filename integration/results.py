"""What a run measured, as a page: figures, versions, and the size of the machine.

Tests hand figures over with the fixture ``measured``; ``LBGEN_RESULTS=docs/measured.md pytest integration``
writes the page.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.debian import ImageError
from integration.fleets import EVERY
from integration.images import resolve, versions

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "measured"


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Hand over one figure: a table's title, the row (which proxy), and columns with values."""

    def hand_over(title: str, row: object, **columns: object) -> None:
        record_property(MARK, (title, str(row), columns))

    return hand_over


class Page:
    """Collects figures while tests run, and writes them at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tables: dict[str, dict[str, dict[str, object]]] = defaultdict(dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the figures of a test that passed."""
        if report.when != "call" or not report.passed:
            return
        for name, value in report.user_properties:
            if name == MARK and isinstance(value, (tuple, list)):
                title, row, columns = value
                self._tables[title].setdefault(row, {}).update(columns)

    def pytest_sessionfinish(self) -> None:
        """Write the page, when there is anything to write."""
        if self._tables:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(self._text())

    def _text(self) -> str:
        parts = ["# Measured", "", _machine(), ""]
        for title in sorted(self._tables):
            parts += [f"## {title}", "", *_table(self._tables[title]), ""]
        return "\n".join(parts).rstrip("\n") + "\n"


def _table(rows: dict[str, dict[str, object]]) -> list[str]:
    columns = list(dict.fromkeys(name for figures in rows.values() for name in figures))
    head = ["", *(name.replace("_", " ") for name in columns)]
    body = [[row, *(str(rows[row].get(name, "")) for name in columns)] for row in sorted(rows)]
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *body)]


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    programs = []
    for proxy in EVERY:
        try:
            found = versions(resolve(proxy.generation, proxy.target))  # type: ignore[arg-type]
        except ImageError:
            continue
        programs.append(f"{proxy}: {found.get(proxy.target, '?')}")  # type: ignore[call-overload]
    size = f"{os.cpu_count()} cores, {memory:.0f} GiB of memory"
    return (
        "Written by `LBGEN_ALL=1 LBGEN_RESULTS=docs/measured.md pytest integration` on a machine with "
        f"{size}, which the mock GPU servers and the load driver shared with the balancer. "
        f"{'; '.join(programs)}."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Write the page when asked for, once: a worker's figures arrive here."""
    path = os.environ.get("LBGEN_RESULTS")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Page(Path(path)), "lbgen-results")
