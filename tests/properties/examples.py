"""How many examples a property is tried with: the same each time, and new ones with `LBGEN_ALL=1`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

ALL = bool(os.environ.get("LBGEN_ALL"))


def examples(usual: int, many: int) -> settings:
    """Return the settings of a property: so many examples, or `many` new ones with `LBGEN_ALL=1`."""
    return settings(
        max_examples=many if ALL else usual, derandomize=not ALL, deadline=None, print_blob=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
