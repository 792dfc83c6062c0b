"""By consistent hashing of what a request belongs to: its session, or how its prompt begins."""

from __future__ import annotations

from bisect import bisect
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from math import ceil
from typing import TYPE_CHECKING, Any

from lbgen.strategies.choosers.turns import Turns, is_open
from lbgen.strategies.prefix import PrefixParameters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from random import Random

    from lbgen.vocabulary import RequestView, ServerView

NGINX_POINTS = 160
"""Points on the ring for each unit of weight (ngx_http_upstream_hash_module)."""
HAPROXY_POINTS = 16
"""Likewise in HAProxy (BE_WEIGHT_SCALE): with few servers of weight 1 their shares differ noticeably."""
SESSION_FACTOR = 1.5
"""What lbgen writes as HAProxy's hash-balance-factor for sessions, as a ratio."""
NGINX_TRIES = 20


@lru_cache(maxsize=65_536)
def _hash(text: str) -> int:
    # The targets use other functions (crc32, sdbm, xxh3); what counts is that it is even and always the same.
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


class _Ring:
    """Points of servers on a circle."""

    def __init__(self, servers: Sequence[ServerView], points: int) -> None:
        pairs = sorted(
            (_hash(f"{server.address}#{number}"), position)
            for position, server in enumerate(servers)
            for number in range(points * server.weight)
        )
        self._hashes = [value for value, _ in pairs]
        self._positions = [position for _, position in pairs]

    def walk(self, key: str) -> Iterator[int]:
        """Yield the positions of servers in the order of preference for a key."""
        begin = bisect(self._hashes, _hash(key))
        seen = set()
        for point in range(begin - len(self._positions), begin):  # the negative ones wrap around
            position = self._positions[point]
            if position not in seen:
                seen.add(position)
                yield position


class _Hashing:
    """Keeps a ring, and spreads what has no key in turn."""

    points = HAPROXY_POINTS
    key = "session"

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self.factor: float = parameters.get("load_factor", SESSION_FACTOR)
        self._turns = Turns()
        self._servers: Sequence[ServerView] | None = None
        self._ring: _Ring

    def choose(self, request: RequestView, servers: Sequence[ServerView], random: Random) -> int | None:
        """Return the server of the request's key, or one that has room for more."""
        del random
        key = self.key_of(request)
        if key is None:
            return self._spread(servers)
        if servers is not self._servers:
            self._servers, self._ring = servers, _Ring(servers, self.points)
        return self._follow(self._ring.walk(key), servers)

    def key_of(self, request: RequestView) -> str | None:
        """Return what is hashed of a request; None: it goes to any server."""
        return request.session if self.key == "session" else request.prefix

    def _follow(self, walk: Iterator[int], servers: Sequence[ServerView]) -> int | None:
        raise NotImplementedError

    def _spread(self, servers: Sequence[ServerView]) -> int | None:
        return self._turns.take([server for server in servers if is_open(server)])


class _Bounded(_Hashing):
    """HAProxy's consistent hash with ``hash-balance-factor``.

    A server is passed over when it has more than its share of all requests in flight times the factor. One
    that is merely at its cap is not: the request waits for it (seen on 2.6).
    """

    def _follow(self, walk: Iterator[int], servers: Sequence[ServerView]) -> int | None:
        alive = [server for server in servers if server.available]
        weights = sum(server.weight for server in alive)
        slots = ceil((sum(server.in_flight for server in alive) + 1) * self.factor)
        room, below = {}, 0
        for server in alive:  # whole slots, whose fractions go to the next server (chash_server_is_eligible)
            room[server.index] = (below + server.weight) * slots // weights - below * slots // weights
            below += server.weight
        for position in walk:
            server = servers[position]
            if server.available and server.in_flight < max(1, room[server.index]):
                return server.index
        return None


class _Unbounded(_Hashing):
    """NGINX's ``hash ... consistent``: full and dead servers are passed over, after 20 tries in turn."""

    points = NGINX_POINTS

    def _follow(self, walk: Iterator[int], servers: Sequence[ServerView]) -> int | None:
        for position in islice(walk, NGINX_TRIES):
            if is_open(servers[position]):
                return servers[position].index
        return self._spread(servers)


class BoundedSession(_Bounded):
    """By session, as HAProxy does it."""


class EvenSession(_Bounded):
    """By session, on a ring that is even."""

    points = NGINX_POINTS


class UnboundedSession(_Unbounded):
    """By session, as NGINX does it."""


class LoyalSession(_Hashing):
    """By session, as HAProxy does it without a bound: a server that is full is waited for."""

    def _follow(self, walk: Iterator[int], servers: Sequence[ServerView]) -> int | None:
        return next((servers[position].index for position in walk if servers[position].available), None)


class HashedPrefix(_Bounded):
    """By conversation, or by the beginning of the prompt."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        super().__init__(parameters)
        by = PrefixParameters.of(parameters)
        self.factor = by.load_factor
        self._by_conversation = by.by_conversation

    def key_of(self, request: RequestView) -> str | None:
        """Return the conversation where conversations count and the request has one, else its prompt."""
        return (request.conversation if self._by_conversation else None) or request.prefix


class UnboundedPrefix(_Unbounded):
    """By conversation, of which a single question is one of its own; or by the beginning of the prompt."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        super().__init__(parameters)
        self._by_conversation = PrefixParameters.of(parameters).by_conversation

    def key_of(self, request: RequestView) -> str | None:
        """Return what a map finds to hash."""
        return request.conversation if self._by_conversation else request.prefix
