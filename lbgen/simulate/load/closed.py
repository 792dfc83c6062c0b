"""Closed loop: so many clients, each of which asks, waits for the answer, thinks, and asks again."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from lbgen.problems import LbgenError
from lbgen.simulate.load.conversations import Conversations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.simulate.load.request import Request
    from lbgen.simulate.load.workload import Workload

RETRY_S = 1.0
"""The least time after which a client that got no answer asks again."""


class Closed:
    """Requests of another workload, in its order, asked by clients that wait for their answers."""

    own_rate: float | None = None

    def __init__(self, inner: Workload, clients: int, think_s: float) -> None:
        if isinstance(inner, Conversations):
            raise LbgenError(
                f"{inner.name} has clients that wait and think of its own: set turns and think_s, and a rate"
            )
        self.inner = inner
        self.usual_requests = inner.usual_requests
        self.clients: int | None = clients
        self._count = clients
        self.think_s = think_s
        """Mean of the exponential time between an answer and the next request; 0: none."""
        self.name = f"{inner.name}, {clients} clients" + (f" thinking {think_s:g} s" if think_s else "")
        self.chunk_tokens = inner.chunk_tokens
        self._rest: Iterator[Request] = iter(())
        self._dice = Random(0)  # noqa: S311 - `requests` seeds it

    def with_clients(self, clients: int) -> Closed:
        """Return the same load asked by so many clients."""
        return Closed(self.inner, clients, self.think_s)

    def requests(self, seed: int, rate_per_s: float, count: int) -> Iterator[Request]:
        """Yield each client's first request; all within a time of thinking, if there is one."""
        del rate_per_s  # the servers decide
        self._dice = Random(f"clients {seed}")  # noqa: S311 - has to be the same again
        self._rest = self.inner.requests(seed, 1.0, count)
        begun = sorted(self._dice.random() * self.think_s for _ in range(min(self._count, count)))
        for now in begun:
            yield self._next(now)

    def follow(self, request: Request, now: float) -> Request | None:
        """Return the next request of the client whose request ended."""
        pause = self._dice.expovariate(1 / self.think_s) if self.think_s else 0.0
        try:
            return self._next(now + (pause if request.finished >= 0 else max(pause, RETRY_S)))
        except StopIteration:
            return None

    def _next(self, now: float) -> Request:
        request = next(self._rest)
        request.arrived = now
        return request
