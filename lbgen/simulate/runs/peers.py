"""Other routers' ways to choose, to compare with: rows of a prediction, not strategies of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from random import Random

    from lbgen.simulate.load.request import Request
    from lbgen.vocabulary import ServerView


class SglangCacheAware:
    """``cache_aware`` of sglang-router 0.3.2, with its defaults.

    The router keeps a tree of the prompts that it sent to each worker. Where more of a prompt than the
    threshold is known of some worker, it goes there; else to the worker with the smallest tree. Only when
    the busiest worker is far ahead of the idlest, absolutely and relatively, the idlest takes it. A system
    prompt that is longer than a first question is above the threshold, so that all conversations which share
    it go to one worker: 64 clients never put it 65 requests ahead.
    """

    CACHE_THRESHOLD = 0.3
    BALANCE_ABS_THRESHOLD = 64
    BALANCE_REL_THRESHOLD = 1.5

    def __init__(self, chunk_tokens: int) -> None:
        self._chunk_tokens = chunk_tokens
        self._trees: dict[int, set[Hashable]] = {}

    def choose(self, request: Request, servers: Sequence[ServerView], random: Random) -> int | None:
        """Return the worker with the longest match, or the one that is to be relieved; None: all are out."""
        del random
        alive = [server for server in servers if server.available]
        if not alive:
            return None
        chunks = request.chunks[: request.prompt_tokens // self._chunk_tokens]
        chosen = self._chosen(request, chunks, alive)
        tree = self._trees.setdefault(chosen, set())
        # What no other prompt can begin with counts for the size of the tree, too.
        tree.update(chunks or (request,))
        return chosen

    def _chosen(self, request: Request, chunks: Sequence[Hashable], alive: Sequence[ServerView]) -> int:
        least, most = (pick(server.in_flight for server in alive) for pick in (min, max))
        if most - least > self.BALANCE_ABS_THRESHOLD and most > self.BALANCE_REL_THRESHOLD * least:
            return min(alive, key=lambda server: server.in_flight).index
        best = max(alive, key=lambda server: self._matched(server.index, chunks))
        known = self._matched(best.index, chunks) * self._chunk_tokens
        if known > self.CACHE_THRESHOLD * request.prompt_tokens:
            return best.index
        return min(alive, key=lambda server: len(self._trees.get(server.index, ()))).index

    def _matched(self, server: int, chunks: Sequence[Hashable]) -> int:
        tree = self._trees.get(server, ())
        return next((n for n, chunk in enumerate(chunks) if chunk not in tree), len(chunks))


class Peer(NamedTuple):
    """A way of another router."""

    name: str
    source: str
    make: Callable[[int], Any]
    """Makes its chooser, for chunks of so many tokens; it sees whole prompts, which no strategy does."""


PEERS: Mapping[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer(
            "sglang-cache-aware",
            "sglang-router 0.3.2: cache_threshold 0.3, balance_abs_threshold 64, balance_rel_threshold 1.5",
            SglangCacheAware,
        ),
    )
}
"""By the name that ``--peer`` takes."""
