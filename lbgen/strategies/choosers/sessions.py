"""By session: a hint that gives way to load, or a promise that does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.strategies.choosers.counts import IdleFirst
from lbgen.strategies.choosers.rings import BoundedSession, EvenSession, LoyalSession
from lbgen.strategies.choosers.turns import is_open
from lbgen.strategies.session import SessionParameters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from lbgen.vocabulary import Chooser, RequestView, ServerView


def _session(request: RequestView) -> str | None:
    return request.session


class Remembered:
    """What has a name has a home while that lives; `method` finds it, and serves what has no name."""

    __slots__ = ("_homes", "_method", "_name", "_waits")

    def __init__(
        self, method: Chooser, *, waits: bool, name: Callable[[RequestView], str | None] = _session
    ) -> None:
        """Keep sessions; `waits`: who finds the home full waits for it, instead of making another one."""
        self._method, self._waits, self._name = method, waits, name
        self._homes: dict[str, int] = {}

    def choose(self, request: RequestView, servers: Sequence[ServerView], random: Random) -> int | None:
        """Return the home, or make one."""
        key = self._name(request)
        if key is None:
            return self._method.choose(request, servers, random)
        known = self._homes.get(key)
        home = next((server for server in servers if server.index == known), None)
        if home is not None and (is_open(home) or (self._waits and home.available)):
            return home.index
        chosen = self._method.choose(request, servers, random)
        if chosen is not None:
            self._homes[key] = chosen
        return chosen


def waiting(parameters: Mapping[str, object]) -> Chooser:
    """Return the chooser of balancers with a queue: a promise waits for its home, a hint is bounded."""
    by = SessionParameters.of(parameters)
    if by.learn or by.insert:
        return Remembered(IdleFirst({}), waits=True)
    return Remembered(LoyalSession({}), waits=True) if by.strict else BoundedSession({})


def ideal(parameters: Mapping[str, object]) -> Chooser:
    """Return the same with an even ring."""
    return waiting(parameters) if SessionParameters.of(parameters).strict else EvenSession({})
