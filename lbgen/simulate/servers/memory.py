"""The whole engine: prompts that are computed in pieces, the KV cache, preemption, the prefix cache.

As vLLM schedules: decoding first, then prompts, first come first served, within a budget of tokens a step;
the newest request gives way when the KV cache is full, and is computed again later. A piece of a prompt that
two requests compute at the same time is counted once when both are done; vLLM keeps both copies.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING

from lbgen.simulate.servers.engine import Engine
from lbgen.simulate.servers.prefix_cache import BoundedCache, PrefixCache
from lbgen.simulate.servers.step_times.profiles import BLOCK

if TYPE_CHECKING:
    from lbgen.simulate.load.request import Request
    from lbgen.simulate.servers.step_times.profiles import Profile

UNLIMITED = 1 << 60


class MemoryEngine(Engine):
    """An engine with prompts and a KV cache of blocks of 16 tokens.

    `chunk_tokens`, a multiple of 16, is what one of a request's `chunks` stands for.
    """

    def __init__(self, profile: Profile, *, chunk_tokens: int = 512) -> None:
        if chunk_tokens % BLOCK:
            raise ValueError(f"a chunk of {chunk_tokens} tokens is not a whole number of blocks")
        super().__init__(profile)
        self._pool = UNLIMITED if profile.kv_tokens is None else profile.kv_tokens // BLOCK
        self._chunk_tokens = chunk_tokens
        self._chunk_blocks = chunk_tokens // BLOCK
        self._cache = self._empty_cache()
        self._own = 0  # blocks that belong to one request each
        self._context = 0  # KV tokens of all decoding requests
        self._phases = [0] * BLOCK  # decoding requests by the step (modulo 16) at which they need a block
        self._running: dict[Request, None] = {}  # in order of admission
        self._prefilling: list[Request] = []
        self._work: list[tuple[Request, int]] = []  # prompt tokens of the present step

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._running)

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache in use, without what is only kept in case it is needed again."""
        if self._pool == UNLIMITED:
            return len(self._running) / self._slots
        return 1 - self._available() / self._pool

    def submit(self, request: Request, now: float) -> None:
        """Take a request. One that the KV cache could never hold is cut, as by a model's context length."""
        request.prompt_tokens = max(1, request.prompt_tokens)
        if self._pool != UNLIMITED:
            request.prompt_tokens = min(request.prompt_tokens, self._pool * BLOCK - 1)
            request.output_tokens = min(request.output_tokens, self._pool * BLOCK - request.prompt_tokens)
        if request.chunks:
            self._cache.touch(request.chunks[: request.prompt_tokens // self._chunk_tokens])
        super().submit(request, now)

    def empty(self) -> list[Request]:
        """Lose everything, the prefix cache included."""
        lost = [*self._running, *self.waiting]
        super().empty()
        self._running.clear()
        self._prefilling.clear()
        self._work.clear()
        self._cache = self._empty_cache()
        self._own = self._context = 0
        self._phases = [0] * BLOCK
        return lost

    def generated(self, now: float) -> int:
        """Return how many tokens unfinished answers have; everything up to `now` has been advanced over."""
        return super().generated(now) + sum(request.produced for request in self._prefilling)

    def _settle(self, finished: list[Request]) -> None:
        self._clock = self.due
        if self._decoding:
            self._grow(self._steps)
        self._number += self._steps
        while self._decoding and self._decoding[0][0] <= self._number:
            self._finish(heappop(self._decoding)[2], finished)
        for request, tokens in self._work:
            request.left -= tokens
            request.base += tokens
            if not request.left:
                self._first_token(request, finished)
        self._evict()
        if self._dropped:
            self._let_go()
        self._plan()

    def _plan(self) -> None:
        preempted = self._make_room()
        count = len(self._decoding)
        self._work.clear()
        budget = self.profile.batch_tokens - count
        for request in self._prefilling:
            if budget > 0:
                budget = self._compute(request, budget)
        if self.waiting and not preempted:
            self._take_in(budget)
        self._time(preempted)

    def _time(self, preempted: bool) -> None:
        """Find out how many steps are alike and how long they take."""
        profile, count = self.profile, len(self._decoding)
        if not self._running:
            self.due = inf
            return
        self._pace = (
            profile.step
            + profile.per_request * count
            + profile.per_kv_token * self._context
            + self._prompt_cost()
        )
        self._slope = profile.per_kv_token * count / 2
        if self._work or preempted or not count:
            self._steps = 1
        else:
            self._steps = self._room_for(self._decoding[0][0] - self._number)
        self.due = self._clock + self._elapsed(self._steps)

    def _prompt_cost(self) -> float:
        profile, cost = self.profile, 0.0
        for request, tokens in self._work:
            cost += profile.per_prefill_token * tokens
            cost += profile.per_attention * tokens * (request.base + tokens / 2)
        return cost

    def _take_in(self, budget: int) -> None:
        waiting = self.waiting
        while waiting and budget > 0 and len(self._running) < self._slots and self._place(waiting[0]):
            request = waiting.popleft()
            if request.admitted < 0:
                request.admitted = self._clock
                request.hits = request.base
            self._running[request] = None
            self._prefilling.append(request)
            budget = self._compute(request, budget)

    def _compute(self, request: Request, budget: int) -> int:
        tokens = min(request.left, budget)
        self._work.append((request, tokens))
        return budget - tokens

    def _place(self, request: Request) -> bool:
        """Give a request the blocks for what is to be computed; return whether they are there."""
        tokens = request.prompt_tokens + request.produced
        hits = (
            self._cache.match(request.chunks, (tokens - 1) // self._chunk_tokens)
            if self._caches(request)
            else 0
        )
        chunks = request.chunks[:hits]
        blocks = -(-tokens // BLOCK) - hits * self._chunk_blocks
        room = self._available() - blocks
        if room < hits * self._chunk_blocks and room < self._cache.idle_among(chunks) * self._chunk_blocks:
            return False
        self._cache.hold(chunks)
        request.shared, request.blocks = hits, blocks
        request.base = hits * self._chunk_tokens
        request.left = tokens - request.base
        self._own += blocks
        self._evict()
        return True

    def _first_token(self, request: Request, finished: list[Request]) -> None:
        """Note that the prompt is computed, which gives a token at once."""
        self._prefilling.remove(request)
        request.produced += 1
        if request.first < 0:
            request.first = self._clock
            if self.firsts is not None:
                self.firsts.append(request)
        self._publish(request, request.base)
        if request.produced >= request.output_tokens:
            self._finish(request, finished)
        else:
            self._decode(request)

    def _decode(self, request: Request) -> None:
        request.context = request.base
        request.begin = self._number
        request.end = self._number + request.output_tokens - request.produced
        self._context += request.context
        self._phases[(request.begin - request.context) % BLOCK] += 1
        self._sequence += 1
        heappush(self._decoding, (request.end, self._sequence, request))

    def _finish(self, request: Request, finished: list[Request]) -> None:
        request.finished = self._clock
        self._leave(request)
        finished.append(request)

    def _leave(self, request: Request) -> None:
        """Take a request out of the batch; what it computed stays in the prefix cache while there is room."""
        del self._running[request]
        tokens = request.base
        if request.end:
            tokens = request.context + self._number - request.begin
            self._context -= tokens
            self._phases[(request.begin - request.context) % BLOCK] -= 1
            request.produced += self._number - request.begin
            request.end = 0
            request.blocks = -(-tokens // BLOCK) - request.shared * self._chunk_blocks
        self._publish(request, tokens)
        self._own -= request.blocks
        if self._pool != UNLIMITED and self.profile.prefix_cache and (request.chunks or self._cache.size):
            # A question of its own and its answer push out what others would ask for.
            self._cache.leave_behind(tokens // self._chunk_tokens - request.shared)
        self._cache.release(request.chunks[: request.shared])
        request.shared = request.blocks = 0

    def _publish(self, request: Request, tokens: int) -> None:
        """Share the whole chunks among so many computed tokens."""
        if not self._caches(request):
            return
        whole = min(tokens // self._chunk_tokens, len(request.chunks))
        if whole > request.shared:
            self._cache.hold(request.chunks[request.shared : whole])
            shared = (whole - request.shared) * self._chunk_blocks
            self._own -= shared
            request.blocks -= shared
            request.shared = whole
        self._cache.touch(request.chunks[: request.shared])

    def _empty_cache(self) -> PrefixCache:
        most = self.profile.cache_tokens
        return PrefixCache() if most is None else BoundedCache(most // self._chunk_tokens)

    def _caches(self, request: Request) -> bool:
        return self.profile.prefix_cache and bool(request.chunks)

    def _available(self) -> int:
        """Return the blocks that are free or can be freed without hurting anybody."""
        return self._pool - self._own - (self._cache.size - self._cache.idle) * self._chunk_blocks

    def _evict(self) -> None:
        while self._cache.idle and self._own + self._cache.size * self._chunk_blocks > self._pool:
            self._cache.drop()

    def _make_room(self) -> bool:
        """Preempt the newest requests until the next step has its blocks; return whether it had to."""
        before = self.preemptions
        while self._phases[self._number % BLOCK] > self._available():
            newest = next(reversed(self._running))
            self._remove(newest)
            self._leave(newest)
            self.waiting.appendleft(newest)
            self.preemptions += 1
        return self.preemptions > before

    def _remove(self, request: Request) -> None:
        if request.end:
            self._decoding = [entry for entry in self._decoding if entry[2] is not request]
            heapify(self._decoding)
        else:
            self._prefilling.remove(request)

    def _room_for(self, steps: int) -> int:
        """Return how many of these decoding steps find their blocks."""
        room = self._available()
        if len(self._decoding) * (steps // BLOCK + 1) <= room:
            return steps
        for step in range(steps):
            room -= self._phases[(self._number + step) % BLOCK]
            if room < 0:
                return step
        return steps

    def _grow(self, steps: int) -> None:
        count = len(self._decoding)
        self._context += count * steps
        rounds, rest = divmod(steps, BLOCK)
        self._own += rounds * count
        for step in range(rest):
            self._own += self._phases[(self._number + step) % BLOCK]

    def _let_go(self) -> None:
        for request in self._dropped:
            if request in self._running:
                self._remove(request)
                self._leave(request)
        self._dropped.clear()
