"""Which beginnings of prompts a server still has in its KV cache."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


class PrefixCache:
    """Chunks of equal size, counted by reference; those that nobody uses are kept until their room is needed.

    A chunk's identity stands for all that comes before it, too. Least recently used chunks go first, and of
    one prompt the tail before the head, since a tail without its head is worth nothing.
    """

    def __init__(self) -> None:
        self._used: dict[Hashable, int] = {}
        self._idle: OrderedDict[Hashable, None] = OrderedDict()

    @property
    def idle(self) -> int:
        """Chunks that can be dropped."""
        return len(self._idle)

    @property
    def size(self) -> int:
        """Chunks in all."""
        return len(self._used) + len(self._idle)

    def match(self, chunks: Sequence[Hashable], most: int) -> int:
        """Return how many leading chunks are here, of at most so many."""
        used, idle = self._used, self._idle
        most = min(most, len(chunks))
        if most and (chunks[most - 1] in used or chunks[most - 1] in idle):
            return most  # a tail goes before its head
        for index in range(most):
            if chunks[index] not in used and chunks[index] not in idle:
                return index
        return most

    def idle_among(self, chunks: Sequence[Hashable]) -> int:
        """Return how many of these chunks nobody uses."""
        return sum(chunk in self._idle for chunk in chunks)

    def hold(self, chunks: Sequence[Hashable]) -> None:
        """Use chunks."""
        used, idle = self._used, self._idle
        for chunk in chunks:
            count = used.get(chunk, 0)
            used[chunk] = count + 1
            if not count and chunk in idle:
                del idle[chunk]

    def touch(self, chunks: Sequence[Hashable]) -> None:
        """Note that a prompt with these chunks asks; here, only what is used counts."""

    def release(self, chunks: Sequence[Hashable]) -> None:
        """Stop using chunks of one prompt."""
        used, idle = self._used, self._idle
        for chunk in reversed(chunks):
            count = used[chunk]
            if count > 1:
                used[chunk] = count - 1
            else:
                del used[chunk]
                idle[chunk] = None

    def leave_behind(self, count: int) -> None:
        """Keep so many chunks that nobody will ask for again: they take room until it is their turn to go."""
        for _ in range(count):
            self._idle[object()] = None

    def drop(self) -> None:
        """Forget the idle chunk that was used least recently; raises `KeyError` when there is none."""
        self._idle.popitem(last=False)


class BoundedCache(PrefixCache):
    """An index that knows so many chunks at most, in use or not, as of a store beside the KV cache.

    What nobody asked for longest is forgotten first.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._known: OrderedDict[Hashable, None] = OrderedDict()

    def match(self, chunks: Sequence[Hashable], most: int) -> int:
        """Return how many leading chunks are known, of at most so many."""
        for index, chunk in enumerate(chunks[:most]):
            if chunk not in self._known:
                return index
        return min(most, len(chunks))

    def hold(self, chunks: Sequence[Hashable]) -> None:
        """Use chunks."""
        self._known.update(dict.fromkeys(chunks))
        super().hold(chunks)

    def touch(self, chunks: Sequence[Hashable]) -> None:
        """Let these chunks be the last that are forgotten, the head after the tail."""
        known = self._known
        for chunk in reversed(chunks):
            if chunk in known:
                known.move_to_end(chunk)
        while len(known) > self._most:
            forgotten, _ = known.popitem(last=False)
            self._idle.pop(forgotten, None)

    def leave_behind(self, count: int) -> None:
        """Keep so many chunks that nobody will ask for again, among those that are known."""
        fresh = [object() for _ in range(count)]
        self._known.update(dict.fromkeys(fresh))
        self._idle.update(dict.fromkeys(fresh))

    def release(self, chunks: Sequence[Hashable]) -> None:
        """Stop using chunks of one prompt; those that are forgotten by now leave."""
        super().release(chunks)
        for chunk in chunks:
            if chunk not in self._known:
                self._idle.pop(chunk, None)

    def drop(self) -> None:
        """Forget the idle chunk that was used least recently; raises `KeyError` when there is none."""
        forgotten, _ = self._idle.popitem(last=False)
        del self._known[forgotten]
