"""What NGINX of a version cannot do for a fleet: degraded or refused, never silently dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.nginx.limitations import edge_limits, pool_limits
from lbgen.targets.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.model import Fleet
    from lbgen.problems import Problem


def limits(fleet: Fleet) -> Iterator[Problem]:
    """Yield every verdict; defaults cause none, only what was written."""
    verdicts = Verdicts("NGINX", fleet.target("nginx"))
    for rule in RULES:
        rule(fleet, verdicts)
    yield from verdicts.problems()


RULES: tuple[Callable[[Fleet, Verdicts], None], ...] = (*pool_limits.RULES, *edge_limits.RULES)
