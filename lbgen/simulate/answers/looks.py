"""How curves look: a strategy has one colour in every chart and report, servers have a scale of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.simulate.runs.result import row_name
from lbgen.strategies.registry import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lbgen.simulate.runs.result import Row

COLORS = len(STRATEGIES) + 2
"""Of strategies; then that of other routers' policies, and that of files which lbgen did not write."""
SHADES = 7
"""Of servers."""
WIDEST = 2
"""Of curves that lie on each other the first ones are wider, up to so many steps."""


class Shown(NamedTuple):
    """A row as charts show it."""

    name: str
    row: Row
    style: str
    """Classes: the strategy's colour, and dashes that tell targets apart and what was only predicted."""


def shown(rows: Sequence[Row]) -> list[Shown]:
    """Return rows with their names and looks."""
    targets = list(dict.fromkeys(row.target for row in rows))
    return [
        Shown(row_name(row), row, looks(row.strategy, targets.index(row.target), row.file)) for row in rows
    ]


def looks(strategy: str, target: int = 0, file: str = "") -> str:
    """Return the classes of a strategy on one of several targets, or of a file that lbgen did not write."""
    names = list(STRATEGIES)
    number = names.index(strategy) if strategy in names else len(names)
    return f"s{len(names) + 1 if file else number}" + (f" t{target}" if target else "")


def server_looks(number: int, servers: int) -> str:
    """Return the classes of one of so many servers: from dark to light, from the eighth on dashed."""
    if servers <= SHADES:
        return f"v{round(number * (SHADES - 1) / max(servers - 1, 1))}"
    return f"v{number % SHADES}" + (" t1" if number >= SHADES else "")


def widths(curves: int) -> Iterable[float]:
    """Return the widths of curves in the order of drawing, so that what is covered can be seen below."""
    return (1.8 + min(curves - 1 - number, WIDEST) for number in range(curves))
