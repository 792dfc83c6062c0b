"""Rules across fields: what a fleet file can say, each field rightly, and still should not.

One function a rule, in a module per theme; `registry.RULES` lists them all by code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.fleet.rules.registry import RULES
from lbgen.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet

__all__ = ["RULES", "check"]


def check(fleet: Fleet) -> Iterator[Problem]:
    """Yield every problem that a rule finds, with its path and without a location."""
    for rule in RULES.values():
        for finding in rule.check(fleet):
            severity = finding.severity or rule.severity
            yield Problem(rule.code, finding.message, finding.path, severity, finding.hint or rule.remedy)
