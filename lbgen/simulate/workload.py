"""The load: who asks for how much, and when. Times are seconds, sizes are tokens."""

from __future__ import annotations

from bisect import bisect
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lbgen.simulate.arrivals import arrivals
from lbgen.simulate.request import Request

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

CHUNK_TOKENS = 512
"""What one chunk of a generated prefix stands for."""


class Sizes(NamedTuple):
    """What decides how many requests servers can carry: averages of prompts and answers."""

    prompt: float
    output: float
    context: float
    """KV tokens that a request holds, averaged over the time it decodes."""


class Workload(Protocol):
    """Makes the requests of a run."""

    @property
    def name(self) -> str: ...
    @property
    def chunk_tokens(self) -> int: ...
    @property
    def own_rate(self) -> float | None:
        """Requests a second, where the workload has a rate of its own (a trace)."""

    def requests(self, seed: int, rate_per_s: float, count: int) -> Iterator[Request]:
        """Yield requests in the order of their arrival; the same seed gives the same ones."""

    def follow(self, request: Request, now: float) -> Request | None:
        """Return the request that this one's end brings about, if any; it arrives at `now` or later."""


class Generated:
    """Requests whose sizes are drawn one by one."""

    name = ""
    chunk_tokens = CHUNK_TOKENS
    own_rate: float | None = None

    def __init__(self, parameters: Mapping[str, float | str]) -> None:
        self._arrivals = str(parameters.get("arrivals", "poisson"))

    def requests(self, seed: int, rate_per_s: float, count: int) -> Iterator[Request]:
        """Yield requests in the order of their arrival."""
        dice = Random(f"{self.name} {seed}")  # noqa: S311 - has to be the same again
        gaps = Random(f"arrivals {seed}")  # noqa: S311 - apart, so that sizes do not depend on the rate
        for now in arrivals(self._arrivals, gaps, rate_per_s, count):
            yield self.make(dice, now)

    def make(self, dice: Random, now: float) -> Request:
        """Return one request."""
        raise NotImplementedError

    def follow(self, request: Request, now: float) -> Request | None:
        """Return None: every request stands alone."""
        del request, now
        return None


class Bimodal(Generated):
    """70 % short answers of 20-100 tokens, 30 % long ones of 500-2000: chat beside summaries and code."""

    name = "bimodal"

    def __init__(self, parameters: Mapping[str, float | str]) -> None:
        super().__init__(parameters)
        self._prompt = int(parameters.get("prompt", 128))
        self._long = float(parameters.get("long", 0.3))

    def sizes(self) -> Sizes:
        """Return the exact averages."""
        short, long = 1 - self._long, self._long
        output = short * 60 + long * 1250
        squares = short * (60**2 + (81**2 - 1) / 12) + long * (1250**2 + (1501**2 - 1) / 12)
        return Sizes(self._prompt, output, self._prompt + squares / output / 2)

    def make(self, dice: Random, now: float) -> Request:
        """Return one request."""
        # int(random()) in place of randint: a third of the time, and as even as these ranges need.
        draw = dice.random()
        output = 500 + int(dice.random() * 1501) if draw < self._long else 20 + int(dice.random() * 81)
        return Request(now, self._prompt, output)


class Fixed(Generated):
    """Requests that are all alike."""

    name = "fixed"

    def __init__(self, parameters: Mapping[str, float | str]) -> None:
        super().__init__(parameters)
        self._prompt = int(parameters.get("prompt", 512))
        self._output = int(parameters.get("output", 256))

    def make(self, dice: Random, now: float) -> Request:
        """Return one request."""
        del dice
        return Request(now, self._prompt, self._output)


class Exponential(Generated):
    """Answers of exponential length: the textbook's service times, for comparison with theory."""

    name = "exponential"

    def __init__(self, parameters: Mapping[str, float | str]) -> None:
        super().__init__(parameters)
        self._prompt = int(parameters.get("prompt", 0))
        self._output = float(parameters.get("output", 1000))

    def make(self, dice: Random, now: float) -> Request:
        """Return one request."""
        return Request(now, self._prompt, max(1, round(dice.expovariate(1 / self._output))))


class Shared(Generated):
    """Prompts that begin with one of so many long texts, such as the system prompts of tenants (Zipf)."""

    name = "shared"

    def __init__(self, parameters: Mapping[str, float | str]) -> None:
        super().__init__(parameters)
        count = int(parameters.get("prefixes", 256))
        self._chunks = max(1, int(parameters.get("prefix_tokens", 4096)) // CHUNK_TOKENS)
        self._prompt = int(parameters.get("prompt", 128))
        self._output = int(parameters.get("output", 128))
        skew = float(parameters.get("skew", 0.9))
        self._ladder = list(accumulate((rank + 1) ** -skew for rank in range(count)))

    def make(self, dice: Random, now: float) -> Request:
        """Return one request."""
        prefix = bisect(self._ladder, dice.random() * self._ladder[-1])
        chunks = tuple((prefix, number) for number in range(self._chunks))
        prompt = self._chunks * CHUNK_TOKENS + 1 + int(dice.random() * 2 * self._prompt)
        output = 1 + int(dice.random() * 2 * self._output)
        return Request(now, prompt, output, chunks, prefix=f"p{prefix}", session=f"t{prefix}")


class Chat(Generated):
    """Conversations: each turn's prompt is all that was said before, and comes after a time of thinking."""

    name = "chat"

    def __init__(self, parameters: Mapping[str, float | str]) -> None:
        super().__init__(parameters)
        self._turns = int(parameters.get("turns", 5))
        self._think = float(parameters.get("think_s", 20))
        self._system = int(parameters.get("system", 1024))
        self._prompt = int(parameters.get("prompt", 200))
        self._output = int(parameters.get("output", 300))
        self._talks: dict[str, tuple[int, Random]] = {}

    def requests(self, seed: int, rate_per_s: float, count: int) -> Iterator[Request]:
        """Yield the first turns; `rate_per_s` and `count` are of all turns together."""
        self._talks.clear()
        dice = Random(f"chat {seed}")  # noqa: S311 - has to be the same again
        gaps = Random(f"arrivals {seed}")  # noqa: S311 - likewise
        begun = arrivals(self._arrivals, gaps, rate_per_s / self._turns, max(1, count // self._turns))
        for number, now in enumerate(begun):
            session = f"s{number}"
            self._talks[session] = (1, Random(dice.random()))  # noqa: S311 - likewise
            yield self._turn(session, now, self._system)

    def follow(self, request: Request, now: float) -> Request | None:
        """Return the conversation's next turn; one that failed is not taken up again."""
        session = request.session
        if session is None or session not in self._talks:
            return None
        turn, dice = self._talks[session]
        if turn >= self._turns or request.finished < 0:
            del self._talks[session]
            return None
        self._talks[session] = (turn + 1, dice)
        history = request.prompt_tokens + request.output_tokens
        return self._turn(session, now + dice.expovariate(1 / self._think), history)

    def _turn(self, session: str, now: float, before: int) -> Request:
        dice = self._talks[session][1]
        prompt = before + 1 + int(dice.random() * 2 * self._prompt)
        output = 1 + int(dice.random() * 2 * self._output)
        system = self._system // CHUNK_TOKENS
        chunks: tuple[Hashable, ...] = tuple(
            ("system", number) if number < system else (session, number)
            for number in range((prompt + output) // CHUNK_TOKENS)
        )
        return Request(now, prompt, output, chunks, session, prefix=session)


WORKLOADS = {kind.name: kind for kind in (Bimodal, Fixed, Exponential, Shared, Chat)}
"""By name, the default first."""

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "bimodal": ("prompt", "long"),
    "fixed": ("prompt", "output"),
    "exponential": ("prompt", "output"),
    "shared": ("prefixes", "prefix_tokens", "prompt", "output", "skew"),
    "chat": ("turns", "think_s", "system", "prompt", "output"),
}
"""What can be set with ``NAME:key=value,...``, beside `arrivals`."""


def sizes(workload: Workload, count: int = 10_000) -> Sizes:
    """Return the averages of a workload: exact where they are known, else from a sample of all turns."""
    workload = getattr(workload, "inner", workload)  # what is asked, whoever waits for it
    if isinstance(workload, Bimodal):
        return workload.sizes()
    prompts = outputs = weighted = 0.0
    seen = 0
    for request in workload.requests(0, 1.0, count):
        one: Request | None = request
        while one is not None:
            prompts += one.prompt_tokens
            outputs += one.output_tokens
            weighted += one.output_tokens * (one.prompt_tokens + one.output_tokens / 2)
            seen += 1
            one.finished = one.arrived
            one = workload.follow(one, one.arrived)
    return Sizes(prompts / seen, outputs / seen, weighted / outputs) if seen else Sizes(0, 1, 1)
