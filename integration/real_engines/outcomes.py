"""What became of a check."""

from __future__ import annotations

import time
import traceback
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

PASSED, FAILED, NOT_POSSIBLE = "passed", "failed", "not possible"


class NotPossibleError(Exception):
    """A check that cannot be made here; the message says why."""


class Outcome(NamedTuple):
    """One line of the result."""

    check: str
    where: str
    """A target, or `ENGINE` for what was asked of it without a balancer."""
    verdict: str
    detail: str


ENGINE = "engine"


def outcome(name: str, where: str, check: Callable[[], str]) -> Outcome:
    """Make a check; whatever it raises becomes a line."""
    begin = time.monotonic()
    try:
        found = Outcome(name, where, PASSED, check())
    except NotPossibleError as error:
        found = Outcome(name, where, NOT_POSSIBLE, str(error))
    except Exception as error:  # noqa: BLE001 - a check that fails must not end the run
        traceback.print_exc()
        found = Outcome(name, where, FAILED, " ".join(f"{type(error).__name__}: {error}".split())[:300])
    print(f"{name}, {where}: {found.verdict}, {found.detail} ({time.monotonic() - begin:.0f} s)", flush=True)
    return found


def expect(condition: object, what: str) -> None:
    """Raise `AssertionError` unless a condition holds."""
    if not condition:
        raise AssertionError(what)
