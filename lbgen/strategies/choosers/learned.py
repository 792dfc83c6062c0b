"""By a table that says which server is the home of each prefix, as lbgen's files make HAProxy do it."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from lbgen.strategies.choosers.counts import HaproxyLeastConn
from lbgen.strategies.choosers.rings import HashedPrefix

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from lbgen.vocabulary import RequestView, ServerView

FLOOR = 2
"""Requests in flight that every server may have, however few there are in all."""


class HaproxyPrefix:
    """The least busy server becomes a prefix's home; above its share a second home helps out, then anybody.

    HAProxy knows a home when the first answer begins, here it is known at once; and of several balancers
    each has a table of its own. Where lbgen makes HAProxy hash (parameter `hashed`), and where servers are
    not alike, prefixes are hashed.
    """

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._factor: float = parameters.get("load_factor", 1.25)
        self._learns = not parameters.get("hashed")
        self._homes: dict[str, int] = {}
        self._second: dict[str, int] = {}
        self._least_conn = HaproxyLeastConn({})
        self._hashed = HashedPrefix(parameters)

    def choose(self, request: RequestView, servers: Sequence[ServerView], random: Random) -> int | None:
        """Return a home of the request's prefix that has room, else the least busy server."""
        alive = [server for server in servers if server.available]
        if not self._learns or len({(server.weight, server.cap) for server in alive}) > 1:
            return self._hashed.choose(request, servers, random)
        key = request.prefix
        if key is None:
            return self._least_conn.choose(request, servers, random)
        homes = self._homes
        for homes in (self._homes, self._second):
            home = next((one for one in alive if one.index == homes.get(key)), None)
            if home is None:
                break
            if not self._over(home, alive):
                return home.index
        chosen = self._least_conn.choose(request, servers, random)
        if chosen is not None:
            homes[key] = chosen
        return chosen

    def _over(self, home: ServerView, alive: Sequence[ServerView]) -> bool:
        total = sum(server.in_flight for server in alive) + 1
        full = home.cap is not None and home.in_flight >= home.cap
        if full and all(server.cap is not None and server.in_flight >= server.cap for server in alive):
            full = False  # then it waits at home
        return full or home.in_flight >= max(FLOOR, ceil(total * self._factor / len(alive)))
