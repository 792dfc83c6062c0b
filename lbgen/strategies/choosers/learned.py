"""By tables that say where each conversation and each prompt is, as lbgen's files make HAProxy do it."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from lbgen.strategies.choosers.counts import IdleFirst
from lbgen.strategies.choosers.rings import HashedPrefix
from lbgen.strategies.prefix import POPULAR_ABOVE, PrefixParameters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from lbgen.vocabulary import RequestView, ServerView

POPULAR = 1.5
"""Times a server's share of all requests that make a prompt everybody's; HAProxy counts those of a minute."""
ENOUGH = 12
"""Requests of a prompt from which its share says something."""
REMEMBERED = 1_000
"""Requests over which shares are counted here: a chooser has no clock."""


class LearnedPrefix:
    """A conversation's home, else its prompt's home, else the least busy server, which becomes the home.

    Bounds are on requests in flight above the average. HAProxy learns a home when the first answer begins,
    here it is known at once; and of several balancers each has tables of its own. Where balancers do not
    share what they learn (parameter `hashed`), requests are hashed.
    """

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._by = PrefixParameters.of(parameters)
        self._hashed = HashedPrefix(parameters) if parameters.get("hashed") else None
        self._least_conn = IdleFirst({})
        self._conversations: dict[str, int] = {}
        self._prompts: dict[str, int] = {}
        self._recent: deque[str] = deque()
        self._counts: dict[str, int] = {}
        self._flying: dict[str | None, set[RequestView]] = defaultdict(set)

    def choose(self, request: RequestView, servers: Sequence[ServerView], random: Random) -> int | None:
        """Return the home of the request if it has room, else the least busy server."""
        if self._hashed:
            return self._hashed.choose(request, servers, random)
        alive = {server.index: server for server in servers if server.available}
        room = _Room(self._by, alive)
        conversation = self._conversation(request, room)
        prompt = request.prefix if self._by.prompt else None
        home = alive.get(self._conversations.get(conversation or "", -1))
        popular = prompt is not None and self._is_popular(prompt, room, len(alive))
        self._flying[request.prefix].add(request)
        self._flying[request.conversation].add(request)
        if home is not None and room.holds(home, 2):
            return home.index
        known = conversation in self._conversations
        if not known and not popular:
            home = alive.get(self._prompts.get(prompt or "", -1))
            if home is not None and room.holds(home, 1):
                return self._settle(conversation, home.index)
        chosen = self._least_conn.choose(request, servers, random)
        if chosen is not None and prompt is not None and not known and not popular:
            self._prompts[prompt] = chosen
        return self._settle(conversation, chosen)

    def _conversation(self, request: RequestView, room: _Room) -> str | None:
        name = request.conversation if self._by.by_conversation else None
        return None if name is None or self._many(name, room) else name

    def _settle(self, conversation: str | None, chosen: int | None) -> int | None:
        if conversation is not None and chosen is not None:
            self._conversations[conversation] = chosen
        return chosen

    def left(self, request: RequestView) -> None:
        """Count a request no longer among those in flight."""
        self._flying[request.prefix].discard(request)
        self._flying[request.conversation].discard(request)

    def _is_popular(self, prompt: str, room: _Room, servers: int) -> bool:
        """Tell whether a prompt is everybody's, by what it has in flight and its share of all requests."""
        self._recent.append(prompt)
        self._counts[prompt] = self._counts.get(prompt, 0) + 1
        if len(self._recent) > REMEMBERED:
            self._counts[self._recent.popleft()] -= 1
        share = self._counts[prompt] * servers / len(self._recent)
        shared = self._by.by_conversation and share > POPULAR and self._counts[prompt] > ENOUGH
        return shared or len(self._flying[prompt]) >= room.average + POPULAR_ABOVE

    def _many(self, name: str, room: _Room) -> bool:
        """Tell whether a conversation has more in flight than a server should have of it."""
        return len(self._flying[name]) >= room.average + room.excess / 2


class _Room:
    """How much more than the average a server may have in flight."""

    def __init__(self, by: PrefixParameters, alive: Mapping[int, ServerView]) -> None:
        servers = alive.values()
        self.average = (sum(server.in_flight for server in servers) + 1) / max(1, len(alive))
        self._weight = sum(server.weight for server in servers) / max(1, len(alive))
        caps = [server.cap for server in servers]
        cap = None if None in caps else min((cap for cap in caps if cap), default=None)
        self.excess = max(self.average * (by.load_factor - 1), by.slack_for(cap))
        self._full = all(_is_full(server) for server in servers)

    def holds(self, home: ServerView, times: int) -> bool:
        """Tell whether a server has less in flight than the average and so many times the excess."""
        if _is_full(home):
            return self._full  # then it waits at home
        load = home.in_flight * self._weight / max(1, home.weight)
        return load < self.average + times * self.excess


def _is_full(server: ServerView) -> bool:
    return server.cap is not None and server.in_flight >= server.cap
