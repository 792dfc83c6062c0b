"""In turn, by weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from random import Random

    from lbgen.vocabulary import RequestView, ServerView


def is_open(server: ServerView) -> bool:
    """Tell whether a server is in rotation and below its cap."""
    return server.available and (server.cap is None or server.in_flight < server.cap)


class Turns:
    """NGINX's smooth weighted round robin: a server of weight 3 among two of weight 1 gets a, b, a, c, a.

    Every candidate's credit grows by its weight; the richest is chosen and pays the sum of all weights.
    HAProxy's roundrobin spreads weights as evenly, by another way.
    """

    __slots__ = ("_credit",)

    def __init__(self) -> None:
        self._credit: dict[int, int] = {}

    def take(self, candidates: Iterable[ServerView]) -> int | None:
        """Return the index of the candidate whose turn it is; None when there is none."""
        credit = self._credit
        total, best, most = 0, None, 0
        for server in candidates:
            index, weight = server.index, server.weight
            mine = credit.get(index, 0) + weight
            credit[index] = mine
            total += weight
            if best is None or mine > most:
                best, most = index, mine
        if best is not None:
            credit[best] = most - total
        return best


class RoundRobin:
    """Each open server in turn; both targets skip those that are full."""

    __slots__ = ("_turns",)

    def __init__(self, parameters: Mapping[str, object]) -> None:
        del parameters  # it has none
        self._turns = Turns()

    def choose(self, request: RequestView, servers: Sequence[ServerView], random: Random) -> int | None:
        """Return the server whose turn it is."""
        del request, random
        return self._turns.take([server for server in servers if is_open(server)])
