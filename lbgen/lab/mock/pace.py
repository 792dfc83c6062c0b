"""Answers at a given pace instead of the engine's: for tests of what happens on the way, not on the GPU.

The header ``x-mock-pace: 0.5,0.3`` asks for the first token after 0.5 s and one every 0.3 s,
in seconds of the wall clock.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lbgen.lab.mock.gpu import Generation

if TYPE_CHECKING:
    from lbgen.lab.mock.http_server import Request

HEADER = "x-mock-pace"


class Pace:
    """Makes the tokens of one answer at fixed times."""

    def __init__(self, first_s: float, gap_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._first_s = first_s
        self._gap_s = gap_s
        self._begin = self._loop.time()
        self._timers: list[asyncio.TimerHandle] = []

    @classmethod
    def of(cls, request: Request) -> Pace | None:
        """Return the pace that a request asks for, if it does; raises `ValueError`."""
        text = request.header(HEADER)
        if text is None:
            return None
        first, _, gap = text.partition(",")
        return cls(float(first), float(gap or 0))

    def submit(self, _prompt_tokens: int, output_tokens: int, _prompt: bytes) -> Generation:
        """Begin an answer."""
        self._begin = self._loop.time()
        generation = Generation(0, output_tokens)
        last = self._first_s + (output_tokens - 1) * self._gap_s
        for future, after in ((generation.first, self._first_s), (generation.ended, last)):
            self._timers.append(self._loop.call_later(after, _finish, future))
        return generation

    def cancel(self, _generation: Generation) -> None:
        """Stop the clock."""
        for timer in self._timers:
            timer.cancel()

    def produced(self, generation: Generation) -> int:
        """Return how many tokens the answer has by now."""
        if generation.ended.done():
            return generation.output_tokens
        elapsed = self._loop.time() - self._begin - self._first_s
        if self._gap_s == 0 or elapsed < 0:
            return int(generation.first.done())
        # A timer may fire a hair early: the clock's resolution must not cost a whole gap.
        return min(generation.output_tokens, 1 + int(elapsed / self._gap_s + 0.01))

    def wait_s(self, generation: Generation, _chunk_s: float) -> float:
        """Return how long until the next token."""
        due = self._first_s + self.produced(generation) * self._gap_s
        return max(0.0005, self._begin + due - self._loop.time())


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
