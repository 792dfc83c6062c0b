"""The plain queue: servers that do one thing at a time, first come first served. No batches, no tokens.

For questions where only waiting matters and millions of requests have to pass, and as a yardstick for the
engine: with one slot and a fixed pace it has to agree with this to rounding.
"""

from __future__ import annotations

from heapq import heapreplace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def one_queue(requests: Iterable[tuple[float, float]], servers: int) -> Iterator[float]:
    """Yield when each request ends; requests are (arrival, service) in order of arrival, in seconds.

    One queue before all servers: the best that any balancer can do with requests of unknown length.
    """
    free = [0.0] * servers
    for arrived, service in requests:
        begin = free[0]
        end = (max(arrived, begin)) + service
        heapreplace(free, end)
        yield end


def in_turn(requests: Iterable[tuple[float, float]], servers: int) -> Iterator[float]:
    """Yield when each request ends; every server has its own queue, and they get requests in turn."""
    free = [0.0] * servers
    server = 0
    for arrived, service in requests:
        begin = free[server]
        free[server] = end = (max(arrived, begin)) + service
        server = server + 1 if server + 1 < servers else 0
        yield end
