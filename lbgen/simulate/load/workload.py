"""The load: who asks for how much, and when. Times are seconds, sizes are tokens."""

from __future__ import annotations

from bisect import bisect
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lbgen.simulate.load.arrivals import arrivals
from lbgen.simulate.load.request import Part, Request

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

CHUNK_TOKENS = 64
"""What one chunk of a generated prompt stands for, as in the mock GPU server."""
LEAST_MESSAGE = 8
"""The least tokens of a message in a chat, whose JSON takes as much."""


NOT_RARE = 0.999
"""Share of the answers that are not longer than the longest that is looked at."""


class Sizes(NamedTuple):
    """What decides how many requests servers can carry: averages of prompts and answers."""

    prompt: float
    output: float
    context: float
    """KV tokens that a request holds, averaged over the time it decodes."""
    longest: int = 0
    """Output tokens of the longest answer that is not rare."""


class Workload(Protocol):
    """Makes the requests of a run."""

    @property
    def name(self) -> str: ...
    @property
    def chunk_tokens(self) -> int: ...
    @property
    def own_rate(self) -> float | None:
        """Requests a second, where the workload has a rate of its own (a trace)."""

    @property
    def clients(self) -> int | None:
        """How many clients wait for their answers and so decide the rate; None: requests come at a rate."""

    @property
    def usual_requests(self) -> int:
        """Of a run, at least, when nobody says how many."""

    def __hash__(self) -> int: ...

    def requests(self, seed: int, rate_per_s: float, count: int) -> Iterator[Request]:
        """Yield requests in the order of their arrival; the same seed gives the same ones."""

    def follow(self, request: Request, now: float) -> Request | None:
        """Return the request that this one's end brings about, if any; it arrives at `now` or later."""


class Generated:
    """Requests whose sizes are drawn one by one."""

    name = ""
    keys: tuple[str, ...] = ()
    """What can be set with ``NAME:key=value,...``, beside `arrivals`."""
    chunk_tokens = CHUNK_TOKENS
    own_rate: float | None = None
    clients: int | None = None
    usual_requests = 10_000

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
    keys = ("prompt", "long")

    def __init__(self, parameters: Mapping[str, float | str]) -> None:
        super().__init__(parameters)
        self._prompt = int(parameters.get("prompt", 128))
        self._long = float(parameters.get("long", 0.3))

    def sizes(self) -> Sizes:
        """Return the exact averages."""
        short, long = 1 - self._long, self._long
        output = short * 60 + long * 1250
        squares = short * (60**2 + (81**2 - 1) / 12) + long * (1250**2 + (1501**2 - 1) / 12)
        return Sizes(self._prompt, output, self._prompt + squares / output / 2, 2000)

    def make(self, dice: Random, now: float) -> Request:
        """Return one request."""
        # int(random()) in place of randint: a third of the time, and as even as these ranges need.
        draw = dice.random()
        output = 500 + int(dice.random() * 1501) if draw < self._long else 20 + int(dice.random() * 81)
        return Request(now, self._prompt, output)


class Fixed(Generated):
    """Requests that are all alike."""

    name = "fixed"
    keys = ("prompt", "output")

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
    keys = ("prompt", "output")

    def __init__(self, parameters: Mapping[str, float | str]) -> None:
        super().__init__(parameters)
        self._prompt = int(parameters.get("prompt", 0))
        self._output = float(parameters.get("output", 1000))

    def make(self, dice: Random, now: float) -> Request:
        """Return one request."""
        return Request(now, self._prompt, max(1, round(dice.expovariate(1 / self._output))))


class Beginnings:
    """Common beginnings of prompts, of which some are asked for more often than others (Zipf)."""

    def __init__(self, name: str, count: int, tokens: int, skew: float, hot: float = 0.0) -> None:
        """`name` tells them from those of others; `hot`: the first one's share of the requests, on top."""
        self._name = name
        self._tokens = max(LEAST_MESSAGE, tokens)
        self._hot = hot
        self._ladder = list(accumulate((rank + 1) ** -skew for rank in range(count)))
        self._known: dict[int, tuple[str, tuple[Hashable, ...], Part]] = {}

    def request(self, dice: Random, now: float, prompt: int, output: int) -> Request:
        """Return a request that begins with one of them and goes on for `prompt` tokens of its own."""
        hot = self._hot and dice.random() < self._hot
        rank = 0 if hot else bisect(self._ladder, dice.random() * self._ladder[-1])
        name, chunks, part = self._known.get(rank) or self._beginning(rank)
        prompt = max(LEAST_MESSAGE, prompt)
        request = Request(now, self._tokens + prompt, output, chunks, name, name)
        request.parts = (part, Part("user", "", prompt))
        return request

    def _beginning(self, rank: int) -> tuple[str, tuple[Hashable, ...], Part]:
        name = f"{self._name}{rank}"
        # Texts, because they keep their hash; a tuple is hashed anew at each look.
        chunks = tuple(f"{name} {number}" for number in range(self._tokens // CHUNK_TOKENS))
        self._known[rank] = found = name, chunks, Part("system", name, self._tokens)
        return found


class Shared(Generated):
    """Prompts that begin with one of so many long texts, such as the system prompts of tenants (Zipf)."""

    name = "shared"
    keys = ("prefixes", "prefix_tokens", "prompt", "output", "skew", "hot")
    usual: Mapping[str, float] = {
        "prefixes": 256, "prefix_tokens": 4096, "prompt": 128, "output": 128, "skew": 0.9, "hot": 0,
    }  # fmt: skip

    def __init__(self, parameters: Mapping[str, float | str]) -> None:
        super().__init__(parameters)
        count, tokens, self._prompt, self._output = (
            int(parameters.get(name, self.usual[name]))
            for name in ("prefixes", "prefix_tokens", "prompt", "output")
        )
        skew, hot = (float(parameters.get(name, self.usual[name])) for name in ("skew", "hot"))
        self._beginnings = Beginnings("p", max(1, count), tokens, skew, hot)

    def make(self, dice: Random, now: float) -> Request:
        """Return one request."""
        prompt = 1 + int(dice.random() * 2 * self._prompt)
        output = 1 + int(dice.random() * 2 * self._output)
        return self._beginnings.request(dice, now, prompt, output)


class Tenants(Shared):
    """Applications with a system prompt each and single questions; `hot` makes one of them busy."""

    name = "tenants"
    usual: Mapping[str, float] = {
        "prefixes": 24, "prefix_tokens": 750, "prompt": 100, "output": 128, "skew": 0, "hot": 0,
    }  # fmt: skip


@lru_cache(maxsize=16)  # a search asks again and again
def sizes(workload: Workload, count: int = 10_000) -> Sizes:
    """Return the averages of a workload: exact where they are known, else from a sample of all turns."""
    workload = getattr(workload, "inner", workload)  # what is asked, whoever waits for it
    if isinstance(workload, Bimodal):
        return workload.sizes()
    prompts = outputs = weighted = 0.0
    lengths: list[int] = []
    for request in workload.requests(0, 1.0, count):
        one: Request | None = request
        while one is not None:
            prompts += one.prompt_tokens
            outputs += one.output_tokens
            weighted += one.output_tokens * (one.prompt_tokens + one.output_tokens / 2)
            lengths.append(one.output_tokens)
            one.finished = one.arrived
            one = workload.follow(one, one.arrived)
    seen = len(lengths)
    if not seen:
        return Sizes(0, 1, 1)
    longest = sorted(lengths)[int(NOT_RARE * (seen - 1))]
    return Sizes(prompts / seen, outputs / seen, weighted / outputs, longest)
