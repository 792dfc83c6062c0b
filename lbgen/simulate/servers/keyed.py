"""An engine whose requests are known by keys, for whoever drives it by a real clock."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from lbgen.simulate.load.request import Request
from lbgen.simulate.load.workload import CHUNK_TOKENS
from lbgen.simulate.servers.engine import Engine
from lbgen.simulate.servers.memory import MemoryEngine

if TYPE_CHECKING:
    from collections.abc import Hashable

    from lbgen.simulate.servers.step_times.profiles import Profile

BYTES_PER_TOKEN = 4
"""What a token is taken for when only bytes are known: English text has four to five characters a token."""


def engine_for(profile: Profile, *, chunk_tokens: int = 512) -> Engine:
    """Return the engine that a profile needs."""
    return Engine(profile) if profile.plain else MemoryEngine(profile, chunk_tokens=chunk_tokens)


class KeyedEngine:
    """One server; `now` is model time in seconds and never runs backwards."""

    def __init__(self, profile: Profile) -> None:
        self._engine = engine_for(profile, chunk_tokens=CHUNK_TOKENS)
        self._engine.firsts = []
        self._requests: dict[int, Request] = {}
        self._keys: dict[Request, int] = {}
        self._coming: list[tuple[float, int]] = []  # first tokens whose time is known
        self._now = 0.0
        self.prompt_tokens = 0
        """Of the answers that were finished."""
        self.hit_tokens = 0
        """Of these prompts, what the prefix cache held."""

    def submit(self, now: float, key: int, prompt_tokens: int, output_tokens: int, prompt: bytes) -> None:
        """Take a request; `prompt` identifies its beginning for the prefix cache."""
        self._now = now
        request = Request(now, prompt_tokens, max(1, output_tokens), chunks_of(prompt))
        self._requests[key] = request
        self._keys[request] = key
        self._engine.submit(request, now)
        self._note_firsts()

    def cancel(self, now: float, key: int) -> None:
        """Forget a request, wherever it stands; unknown keys are no mistake."""
        request = self._requests.pop(key, None)
        if request is not None:
            del self._keys[request]
            self._now = now
            self._engine.cancel(request, now)

    def next_event(self) -> float | None:
        """Return when the next first or last token may come; None when idle."""
        due = min(self._engine.due, self._coming[0][0]) if self._coming else self._engine.due
        return None if due == float("inf") else due

    def advance(self, now: float) -> list[tuple[int, bool]]:
        """Work until `now`; return requests whose first token came, with True those that ended."""
        self._now = now
        happened: list[tuple[int, bool]] = []
        finished = self._engine.advance(now)
        self._note_firsts()
        while self._coming and self._coming[0][0] <= now:
            key = heappop(self._coming)[1]
            if key in self._requests:
                happened.append((key, False))
        for request in finished:
            key = self._keys.pop(request, -1)
            if key >= 0:
                del self._requests[key]
                self.prompt_tokens += request.prompt_tokens
                self.hit_tokens += request.hits
                happened.append((key, True))
        return happened

    def produced(self, key: int) -> int:
        """Return how many tokens a request has by the time last advanced to; 0 when it is not here."""
        request = self._requests.get(key)
        return 0 if request is None else self._engine.produced(request, self._now)

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return self._engine.running

    @property
    def waiting(self) -> int:
        """Requests before it."""
        return len(self._engine.waiting)

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache in use, 0 to 1."""
        return self._engine.kv_usage

    def _note_firsts(self) -> None:
        firsts = self._engine.firsts
        if firsts:
            for request in firsts:
                if request in self._keys:
                    heappush(self._coming, (request.first, self._keys[request]))
            firsts.clear()


def chunks_of(prompt: bytes) -> tuple[Hashable, ...]:
    """Return what identifies each whole chunk of a prompt, and all that comes before it."""
    size, chunks, before = CHUNK_TOKENS * BYTES_PER_TOKEN, [], 0
    for begin in range(0, len(prompt) - size + 1, size):
        before = hash((before, prompt[begin : begin + size]))
        chunks.append(before)
    return tuple(chunks)
