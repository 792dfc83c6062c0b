"""Waiting for what happens soon, without a tight time limit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def eventually(condition: Callable[[], bool], patience_s: float, what: str) -> float:
    """Return how long it took until a condition held; raises `AssertionError`, naming `what`."""
    begin = time.monotonic()
    while time.monotonic() < begin + patience_s:
        if condition():
            return time.monotonic() - begin
        time.sleep(0.05)
    raise AssertionError(f"not within {patience_s} s: {what}")
