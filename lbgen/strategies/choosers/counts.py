"""By the number of requests in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.strategies.choosers.turns import Turns, is_open

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from lbgen.vocabulary import RequestView, ServerView


class LeastConn:
    """The fewest requests in flight by weight; the smooth round robin decides among equals."""

    __slots__ = ("_turns",)

    def __init__(self, parameters: Mapping[str, object]) -> None:
        del parameters  # it has none
        self._turns = Turns()

    def choose(self, request: RequestView, servers: Sequence[ServerView], random: Random) -> int | None:
        """Return the least loaded server."""
        del request, random
        best: ServerView | None = None
        equals: list[ServerView] = []
        for server in servers:
            cap = server.cap
            if not server.available or (cap is not None and server.in_flight >= cap):
                continue
            ahead = -1 if best is None else server.in_flight * best.weight - best.in_flight * server.weight
            if ahead < 0:
                best, equals = server, [server]
            elif ahead == 0:
                equals.append(server)
        if len(equals) < 2:
            return None if best is None else best.index
        return self._turns.take(equals)


class IdleFirst:
    """HAProxy's leastconn: by (in flight + 1) / weight, 0 for an idle server; among equals in turn.

    An idle server goes first whatever its weight (fwlc_queue_srv, in the sources of 2.x and 3.x). The order
    among equals is that of the last change of their keys; here, of the last choice.
    """

    __slots__ = ("_chosen", "_count")

    def __init__(self, parameters: Mapping[str, object]) -> None:
        del parameters  # it has none that matters here
        self._chosen: dict[int, int] = {}
        self._count = 0

    def choose(self, request: RequestView, servers: Sequence[ServerView], random: Random) -> int | None:
        """Return the least loaded server."""
        del request, random
        best, least, oldest = None, 0.0, 0
        for server in servers:
            count, cap = server.in_flight, server.cap
            if not server.available or (cap is not None and count >= cap) or server.weight <= 0:
                continue
            key = (count + 1) / server.weight if count else 0.0
            if best is None or key <= least:
                turn = self._chosen.get(server.index, 0)
                if best is None or key < least or turn < oldest:
                    best, least, oldest = server.index, key, turn
        if best is not None:
            self._count += 1
            self._chosen[best] = self._count
        return best


class _Draws:
    """Draws servers by weight."""

    __slots__ = ("_alike", "_last")

    def __init__(self) -> None:
        self._last: Sequence[ServerView] | None = None
        self._alike = False

    def draw(self, servers: Sequence[ServerView], random: Random) -> ServerView:
        if servers is not self._last:
            self._last, self._alike = servers, len({server.weight for server in servers}) == 1
        if self._alike:
            return servers[int(random.random() * len(servers))]
        point = random.random() * sum(server.weight for server in servers)
        for server in servers:
            point -= server.weight
            if point < 0:
                return server
        return servers[-1]


class TwoServers:
    """Two different servers by weight, and of these the less loaded; after 20 vain draws, in turn."""

    __slots__ = ("_draws", "_turns")

    def __init__(self, parameters: Mapping[str, object]) -> None:
        del parameters  # it has none
        self._draws = _Draws()
        self._turns = Turns()

    def choose(self, request: RequestView, servers: Sequence[ServerView], random: Random) -> int | None:
        """Return the better of two."""
        del request
        first: ServerView | None = None
        for _ in range(20 if len(servers) > 1 else 0):
            server = self._draws.draw(servers, random)
            if server is first or not is_open(server):
                continue
            if first is None:
                first = server
            elif server.in_flight * first.weight > first.in_flight * server.weight:
                return first.index
            else:
                return server.index
        return self._turns.take([server for server in servers if is_open(server)])


class TwoDraws:
    """HAProxy's random(2): two draws, which may be the same server; if the better one is full, the queue."""

    __slots__ = ("_draws",)

    def __init__(self, parameters: Mapping[str, object]) -> None:
        del parameters  # it has none
        self._draws = _Draws()

    def choose(self, request: RequestView, servers: Sequence[ServerView], random: Random) -> int | None:
        """Return the better of two."""
        del request
        alive = servers if all(server.available for server in servers) else _available(servers)
        if not alive:
            return None
        first, second = self._draws.draw(alive, random), self._draws.draw(alive, random)
        if second.in_flight * first.weight > first.in_flight * second.weight:
            second = first
        return second.index if is_open(second) else None


class Pack:
    """HAProxy's ``first``: the first server in the order of the file that is not full."""

    __slots__ = ()

    def __init__(self, parameters: Mapping[str, object]) -> None:
        del parameters  # it has none

    def choose(self, request: RequestView, servers: Sequence[ServerView], random: Random) -> int | None:
        """Return the first server with room."""
        del request, random
        return next((server.index for server in servers if is_open(server)), None)


def _available(servers: Sequence[ServerView]) -> list[ServerView]:
    return [server for server in servers if server.available]
