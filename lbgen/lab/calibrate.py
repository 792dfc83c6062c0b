"""Probing a running engine: how long its steps take, alone and in batches, with short and long prompts.

The engine should serve nobody else meanwhile. Every prompt begins with words of its own, so that no prefix
cache helps. Of repeated probes the fastest counts: whatever disturbs one makes it slower.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp

from lbgen.lab.load import session
from lbgen.problems import LbgenError
from lbgen.simulate.servers.step_times.calibration import Point
from lbgen.simulate.servers.step_times.fit import Probes, Prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

REPEATS = 3
ANSWER_TOKENS = 64
SHORT_WORDS = 8
WARM_WORDS = 64
"""Of the first prompt, which tells how many tokens such a word is."""
LENGTHS = (8, 4, 2, 1)
"""Prompts are the longest one's tokens divided by these."""
DEEP_IN_FLIGHT = 4
"""Requests with long prompts that decode together."""
CACHED = 0.6
"""A prefix cache is there when the same prompt's first token came within this share of its first time."""


class Limits(NamedTuple):
    """How far the probes go."""

    in_flight: int
    """Requests at once at most."""
    prompt_tokens: int
    """Tokens of the longest prompt, about."""
    seconds: float
    """No probe begins later."""


class Stream(NamedTuple):
    """One answer: when its first and last token came after it was asked for, and the engine's own counts."""

    first_s: float
    last_s: float
    tokens: int
    prompt_tokens: int

    @property
    def token_s(self) -> float:
        """Seconds between tokens."""
        return (self.last_s - self.first_s) / max(1, self.tokens - 1)


@dataclass
class Cost:
    """What the probes have asked of the engine."""

    requests: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0


@dataclass
class Probing:
    """Probes of one server; raises `LbgenError` where it does not answer as OpenAI's API does."""

    url: str
    model: str | None
    headers: Mapping[str, str]
    limits: Limits
    note: Callable[[str], None]
    progress: Callable[[int, int], None] = lambda _done, _total: None
    """Called with how many measurements are done, of how many at most."""
    cost: Cost = field(default_factory=Cost)
    stopped: bool = False
    """True when the time did not suffice for all probes."""
    _dice: Random = field(default_factory=Random)

    async def run(self) -> Probes:
        """Probe, from the cheapest to the most expensive; what the time allows is returned."""
        self._begin = time.monotonic()
        sizes = self.limits.in_flight.bit_length()
        async with session(fresh=True) as self._client:  # engines close idle ones as they like
            self.model = self.model or await self._first_model()
            self.note(f"calibrating {self.model} at {self.url}")
            first = await self._ask(WARM_WORDS, ANSWER_TOKENS)  # which may load or compile something, too
            self._per_word = first.prompt_tokens / WARM_WORDS if first else 1.0
            self._total = sizes + len(LENGTHS) + 1
            self.progress(0, self._total)
            batches, slots = await self._batches()
            self.progress(sizes, self._total)
            prompts, cached = await self._prompts()
            self.progress(self._total - 1, self._total)
            deep = await self._deep(prompts)
        self.cost.seconds = time.monotonic() - self._begin
        return Probes(batches, deep, prompts, slots, cached)

    async def _batches(self) -> tuple[tuple[Point, ...], int | None]:
        found: list[Point] = []
        number = 1
        while number <= self.limits.in_flight and (self._time_left() or not found):
            streams = await self._together(number, SHORT_WORDS)
            begun = _begun_at_once(streams)
            if begun < number:
                self.note(f"{number} requests at once: {begun} are processed, the others wait")
                return tuple(found), begun
            found.append(_point(number, streams))
            self.note(f"{number} at once: {found[-1].token_s * 1000:.2f} ms between tokens")
            self.progress(len(found), self._total)
            number *= 2
        return tuple(found), None

    async def _prompts(self) -> tuple[tuple[Prompt, ...], bool | None]:
        found: list[Prompt] = []
        cached = None
        for part in LENGTHS:
            if not self._time_left():
                break
            length = self._words(part)
            streams = [await self._ask(length, 2, may_fail=True) for _ in range(REPEATS)]
            whole = [one for one in streams if one is not None]
            if not whole:
                self.note(f"a prompt of {length} words is refused: longer ones are not tried")
                break
            best = min(whole, key=lambda one: one.first_s)
            found.append(Prompt(best.prompt_tokens, best.first_s))
            self.note(f"a prompt of {best.prompt_tokens} tokens: first token after {best.first_s:.3f} s")
            cached = await self._is_cached(length)
            self.progress(self._total - 1 - len(LENGTHS) + len(found), self._total)
        return tuple(found), cached

    async def _is_cached(self, words: int) -> bool | None:
        text = self._text(words)
        first, again = await self._ask(text, 2, may_fail=True), await self._ask(text, 2, may_fail=True)
        return None if first is None or again is None else again.first_s < CACHED * first.first_s

    async def _deep(self, prompts: Sequence[Prompt]) -> tuple[Point, ...]:
        if not prompts or not self._time_left():
            return ()
        number = min(DEEP_IN_FLIGHT, self.limits.in_flight)
        streams = await self._together(number, self._words(LENGTHS[len(prompts) - 1]))
        if _begun_at_once(streams) < number:
            return ()
        found = _point(number, streams)
        self.note(f"{number} long prompts at once: {found.token_s * 1000:.2f} ms between tokens")
        return (found,)

    async def _together(self, number: int, words: int) -> list[Stream]:
        """Return the fastest of several batches; long prompts are computed once before, for the cache."""
        best: list[Stream] = []
        for _ in range(REPEATS):
            texts = [self._text(words) for _ in range(number)]
            if words > SHORT_WORDS:
                await asyncio.gather(*(self._ask(text, 1) for text in texts))
            answers = await asyncio.gather(*(self._ask(text, ANSWER_TOKENS) for text in texts))
            streams = [one for one in answers if one is not None]
            if not best or _middle(streams) < _middle(best):
                best = streams
            if not self._time_left():
                break
        return best

    def _text(self, words: int) -> str:
        """Return so many words that no prompt before had."""
        return " ".join(f"{self._dice.getrandbits(16):x}" for _ in range(max(1, words)))

    def _words(self, part: int) -> int:
        return max(1, round(self.limits.prompt_tokens / part / self._per_word))

    def _time_left(self) -> bool:
        left = time.monotonic() - self._begin < self.limits.seconds
        self.stopped = self.stopped or not left
        return left

    async def _first_model(self) -> str:
        try:
            async with self._client.get(f"{self.url}/v1/models", headers=self.headers) as answer:
                if answer.status != 200:
                    raise LbgenError(f"{self.url}/v1/models: the engine returned {answer.status}")
                found = json.loads(await answer.read())["data"][0]["id"]
        except (aiohttp.ClientError, OSError, ValueError, KeyError, IndexError, TypeError) as error:
            raise LbgenError(f"{self.url}/v1/models lists no model ({_why(error)}): give --model") from None
        return str(found)

    async def _ask(self, prompt: str | int, tokens: int, *, may_fail: bool = False) -> Stream | None:
        text = prompt if isinstance(prompt, str) else self._text(prompt)
        # ignore_eos is vLLM's and SGLang's: without it an answer may end early; its count of tokens shows it.
        body = {"model": self.model, "prompt": text, "max_tokens": tokens, "temperature": 0, "stream": True,
                "ignore_eos": True, "stream_options": {"include_usage": True}}  # fmt: skip
        begin = time.monotonic()
        try:
            async with self._client.post(
                f"{self.url}/v1/completions", json=body, headers=self.headers
            ) as answer:
                if answer.status != 200:
                    if may_fail:
                        return None
                    words = (await answer.read())[:200].decode(errors="replace")
                    raise LbgenError(f"{self.url}: the engine returned {answer.status}: {words}")
                found = await _stream(answer, begin, text)
        except (aiohttp.ClientError, OSError) as error:
            raise LbgenError(f"{self.url}: {_why(error)}") from None
        self.cost.requests += 1
        self.cost.prompt_tokens += found.prompt_tokens
        self.cost.output_tokens += found.tokens
        return found


async def _stream(answer: aiohttp.ClientResponse, begin: float, text: str) -> Stream:
    """Read a stream; without `usage` in it, an event or four bytes of a prompt count as a token."""
    times: list[float] = []
    usage: Mapping[str, Any] = {}
    async for line in answer.content:
        if not line.startswith(b"data: {"):
            continue
        try:
            event = json.loads(line[6:])
        except ValueError:
            continue
        usage = event.get("usage") or usage
        if event.get("choices"):
            times.append(time.monotonic() - begin)
    if not times:
        raise LbgenError(f"{answer.url}: no stream of tokens: the engine must support OpenAI's API")
    tokens = usage.get("completion_tokens") or len(times)
    return Stream(times[0], times[-1], tokens, usage.get("prompt_tokens") or max(1, len(text) // 4))


def _begun_at_once(streams: Sequence[Stream]) -> int:
    """Return how many had their first token long before any had its last: the others waited for a place."""
    half = min(one.last_s for one in streams) / 2
    return sum(one.first_s < half for one in streams)


def _middle(streams: Sequence[Stream]) -> float:
    return sorted(one.token_s for one in streams)[len(streams) // 2]


def _point(number: int, streams: Sequence[Stream]) -> Point:
    prompt = sum(one.prompt_tokens for one in streams) / len(streams)
    return Point(number, _middle(streams), None, prompt, streams[0].tokens)


def _why(error: BaseException) -> str:
    return str(error) or type(error).__name__
