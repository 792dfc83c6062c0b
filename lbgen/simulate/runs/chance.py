"""What chance does to one run: the same requests, shifted a little, and other draws of the balancer.

Which of two requests that arrive almost together comes first, and which of two equal servers gets it, decides
everything behind it. A prediction of one run is therefore a band, not a number; near saturation a wide one.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.simulate.load.request import Request
    from lbgen.simulate.load.workload import Workload
    from lbgen.simulate.runs.run import Task


class Shifted:
    """Another workload's requests, each later by up to `most_s` seconds, evenly drawn."""

    def __init__(self, inner: Workload, most_s: float, luck: int) -> None:
        self.inner = inner
        self._most_s = most_s
        self._luck = luck
        self.name = inner.name
        self.chunk_tokens = inner.chunk_tokens
        self.own_rate = inner.own_rate
        self.clients = inner.clients
        self.usual_requests = inner.usual_requests

    def requests(self, seed: int, rate_per_s: float, count: int) -> Iterator[Request]:
        """Yield the requests in the order of their new arrivals."""
        dice = Random(f"luck {self._luck} {seed}")  # noqa: S311 - has to be the same again
        found = list(self.inner.requests(seed, rate_per_s, count))
        for request in found:
            request.arrived += dice.random() * self._most_s
        yield from sorted(found, key=lambda request: request.arrived)

    def follow(self, request: Request, now: float) -> Request | None:
        """Return what the other workload says."""
        return self.inner.follow(request, now)


def replicas(task: Task, count: int, most_s: float) -> list[Task]:
    """Return so many runs of the same requests, each as chance may have it."""
    return [
        task._replace(workload=Shifted(task.workload, most_s, luck), luck=luck)
        for luck in range(1, count + 1)
    ]
