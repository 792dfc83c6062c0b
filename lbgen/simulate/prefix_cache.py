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
        for index in range(min(most, len(chunks))):
            if chunks[index] not in used and chunks[index] not in idle:
                return index
        return min(most, len(chunks))

    def idle_among(self, chunks: Sequence[Hashable]) -> int:
        """Return how many of these chunks nobody uses."""
        return sum(chunk in self._idle for chunk in chunks)

    def hold(self, chunk: Hashable) -> bool:
        """Use a chunk; return whether it was here already."""
        if chunk in self._used:
            self._used[chunk] += 1
            return True
        self._used[chunk] = 1
        if chunk in self._idle:
            del self._idle[chunk]
            return True
        return False

    def release(self, chunks: Sequence[Hashable]) -> None:
        """Stop using chunks of one prompt."""
        for chunk in reversed(chunks):
            self._used[chunk] -= 1
            if not self._used[chunk]:
                del self._used[chunk]
                self._idle[chunk] = None

    def drop(self) -> None:
        """Forget the idle chunk that was used least recently; raises `KeyError` when there is none."""
        self._idle.popitem(last=False)
