"""A recorded load that is played again: in its order, or in stretches drawn by the seed."""

from __future__ import annotations

from bisect import bisect_left
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from lbgen.simulate.load.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CHUNK_TOKENS = 512
STRETCHES = 20
"""Into which a log is cut when seeds draw from it."""


class Turn(NamedTuple):
    """One request of a log."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    session: str = ""
    sized: bool = False
    """The size of the prompt is the log's."""
    first_s: float | None = None
    """From the request to the first token; None where the log does not say, or the answer was no stream."""
    duration_s: float | None = None
    queue_s: float | None = None
    server: str | None = None


def busiest(turns: Sequence[Turn], length_s: float) -> list[Turn]:
    """Return the turns of the stretch of such a length to which most came; they are in order of time."""
    times = [turn.at_s for turn in turns]
    best = (0, 0)
    for first, begin in enumerate(times):
        last = bisect_left(times, begin + length_s, first)
        if last - first > best[1] - best[0]:
            best = first, last
    return list(turns[best[0] : best[1]])


class Log:
    """A log's requests, faster or slower as asked for; repeated when more are asked for."""

    chunk_tokens = CHUNK_TOKENS
    clients: int | None = None
    usual_requests = 10_000

    def __init__(
        self, name: str, turns: Sequence[Turn], grid_s: float, *, resampled: bool = False,
        said: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Take turns in the order of arrival; over `grid_s` seconds their times are spread."""
        self.name = name
        self.said = said
        """What was read and what was assumed, for the user."""
        self.turns = turns
        begin = turns[0].at_s
        self._times = [turn.at_s - begin for turn in turns]
        self._span = max(self._times[-1] + grid_s, 1e-3) * len(turns) / max(1, len(turns) - (not grid_s))
        self.grid_s = grid_s
        self._resampled = resampled
        self.own_rate: float | None = len(turns) / self._span

    def requests(self, seed: int, rate_per_s: float, count: int) -> Iterator[Request]:
        """Yield so many requests in the order of arrival."""
        dice = Random(f"log {seed}")  # noqa: S311 - has to be the same again
        pace = (self.own_rate or 1.0) / rate_per_s
        left, passed, stretch = count, 0.0, 0
        length = self._span / STRETCHES if self._resampled else self._span
        while left > 0:
            begin = dice.random() * self._span if self._resampled or not stretch else 0.0
            found = sorted(
                (at + dice.random() * self.grid_s, index) for at, index in self._stretch(begin, length)
            )
            for at, index in found[:left]:
                yield self._request((passed + at) * pace, index, stretch)
            left -= len(found)
            passed += length if self._resampled or stretch else self._span - begin
            stretch += 1

    def follow(self, request: Request, now: float) -> Request | None:
        """Return None: a log has all its requests."""
        del request, now
        return None

    def _stretch(self, begin: float, length: float) -> Iterator[tuple[float, int]]:
        """Yield times from a stretch's begin, and indices; behind the end the log begins anew."""
        end = begin + length
        for index in range(bisect_left(self._times, begin), bisect_left(self._times, min(end, self._span))):
            yield self._times[index] - begin, index
        if self._resampled:
            for index in range(bisect_left(self._times, end - self._span)):
                yield self._times[index] + self._span - begin, index

    def _request(self, at_s: float, index: int, stretch: int) -> Request:
        turn = self.turns[index]
        if not turn.session:
            return Request(at_s, turn.prompt_tokens, turn.output_tokens)
        name = f"{stretch} {turn.session}"  # what is played twice is no conversation that goes on
        whole = (turn.prompt_tokens + turn.output_tokens) // CHUNK_TOKENS if turn.sized else 0
        chunks = tuple((name, number) for number in range(whole))
        request = Request(at_s, turn.prompt_tokens, turn.output_tokens, chunks, name)
        request.conversation = name
        request.named = True
        return request


class Replay(Log):
    """A log once, in its own order and time; its requests say afterwards what became of them."""

    def requests(self, seed: int, rate_per_s: float, count: int) -> Iterator[Request]:
        """Yield the log's requests, at most so many; the rate is the log's own."""
        del rate_per_s
        dice = Random(f"log {seed}")  # noqa: S311 - has to be the same again
        times = sorted((at + dice.random() * self.grid_s, index) for index, at in enumerate(self._times))
        self.replayed: list[tuple[Turn, Request]] = []
        for at, index in times[:count]:
            request = self._request(at, index, 0)
            self.replayed.append((self.turns[index], request))
            yield request
