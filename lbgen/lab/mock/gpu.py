"""One engine of the simulator, run in real time.

The engine counts virtual seconds; the wall clock times the speed factor drives it. Events are digested at
their exact virtual times, however late the loop wakes, so that a loaded machine delays answers but never
changes the work.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbgen.simulate.servers.keyed import KeyedEngine


class Generation:
    """One answer in the making."""

    def __init__(self, key: int, output_tokens: int) -> None:
        loop = asyncio.get_running_loop()
        self.key = key
        self.output_tokens = output_tokens
        self.first: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()

    async def pause(self, seconds: float) -> None:
        """Wait for so long, or until the last token."""
        if not self.ended.done():
            await asyncio.wait((self.ended,), timeout=seconds)


class Gpu:
    """Runs an engine against the wall clock.

    `late` hears by how many seconds of the wall clock each first or last token missed its time.
    """

    def __init__(self, engine: KeyedEngine, speed: float, late: Callable[[float], None]) -> None:
        self._late = late
        self._due = 0.0  # when the timer should ring
        self._loop = asyncio.get_running_loop()
        self._engine = engine
        self._speed = speed
        self._begin = self._loop.time()
        self._generations: dict[int, Generation] = {}
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return self._engine.running

    @property
    def waiting(self) -> int:
        """Requests that wait for a slot."""
        return self._engine.waiting

    @property
    def kv_usage(self) -> float:
        """Share of the KV blocks in use, 0 to 1."""
        return self._engine.kv_usage

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompts of finished answers."""
        return self._engine.prompt_tokens

    @property
    def hit_tokens(self) -> int:
        """Those of them that the prefix cache held."""
        return self._engine.hit_tokens

    @property
    def hit_ratio(self) -> float:
        """Share of the prompt tokens that the prefix cache held, of finished answers."""
        return self.hit_tokens / max(1, self.prompt_tokens)

    def submit(self, prompt_tokens: int, output_tokens: int, prompt: bytes) -> Generation:
        """Give the engine a request."""
        now = self._advance()
        self._number += 1
        generation = Generation(self._number, output_tokens)
        self._generations[generation.key] = generation
        self._engine.submit(now, generation.key, prompt_tokens, output_tokens, prompt)
        self._arm()
        return generation

    def cancel(self, generation: Generation) -> None:
        """Take a request out of the engine; nothing happens when it has ended."""
        if self._generations.pop(generation.key, None) is not None:
            self._engine.cancel(self._advance(), generation.key)
            self._arm()

    def produced(self, generation: Generation) -> int:
        """Return how many tokens the answer has by now."""
        self._advance()
        if generation.ended.done():
            return generation.output_tokens
        return max(self._engine.produced(generation.key), int(generation.first.done()))

    def wait_s(self, _generation: Generation, chunk_s: float) -> float:
        """Return how long to wait before the next piece: tokens that come faster travel together."""
        return chunk_s

    def _advance(self) -> float:
        now = (self._loop.time() - self._begin) * self._speed
        for key, ended in self._engine.advance(now):
            generation = self._generations.get(key)
            if generation is None:
                continue
            if not generation.first.done():
                generation.first.set_result(None)
            if ended:
                generation.ended.set_result(None)
                del self._generations[key]
        return now

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        when = self._engine.next_event()
        if when is None:
            self._timer = None
        else:
            self._due = self._begin + when / self._speed
            self._timer = self._loop.call_at(self._due, self._wake)

    def _wake(self) -> None:
        self._late(self._loop.time() - self._due)
        self._advance()
        self._arm()
