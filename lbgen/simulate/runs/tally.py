"""What is counted during a run."""

from __future__ import annotations

from math import inf, sqrt
from typing import TYPE_CHECKING, NamedTuple

from lbgen.simulate.runs.series import Series
from lbgen.simulate.runs.statistics import Quantiles, grows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.simulate.load.request import Request
    from lbgen.simulate.servers.server import SimulatedServer

MARKS = 2_000
"""Most marks of the integral over time, from which its first tenth is taken off."""
STRETCHES = 10
"""Into which the run behind its first tenth is divided, to see whether the queue still grows."""
NEVER = 1 << 60
SETTLING = 4_096
"""Arrivals after which latencies are counted up."""


class Edges(NamedTuple):
    """The shares of a run's requests whose latencies do not count."""

    warm_up: float
    """While the first ones come, caches and queues fill."""
    cool_down: float = 0.0
    """When the last ones are answered, nobody comes any more, and they are faster for it."""


USUAL_EDGES = Edges(0.1)


class Tally:
    """Latencies, errors, and the spread of requests in flight over the servers."""

    def __init__(
        self, servers: Sequence[SimulatedServer], requests: int = 0, edges: Edges = USUAL_EDGES
    ) -> None:
        """Begin to count; latencies are those of so many `requests` less the edges, or of 0 (unknown) all."""
        self.ttft, self.e2e, self.wait = Quantiles(), Quantiles(), Quantiles()
        self.arrived = self.ok = self.open = 0
        self.output_tokens = self.prompt_tokens = self.hit_tokens = 0
        self.errors: dict[str, int] = {}
        self.began_s: float | None = None
        self.ended_s = 0.0
        self._warm_up = int(requests * edges.warm_up)
        self._warm_s = inf if self._warm_up else 0.0  # latencies count of requests that came from then on
        self._cool_down = requests - int(requests * edges.cool_down) + 1 if edges.cool_down else NEVER
        self._cool_s = inf  # and of those that came before
        self._stretch = max(1, (requests - self._warm_up) // STRETCHES) if requests else NEVER
        self._seen = 0  # requests in the system, summed up over the arrivals of this stretch
        self._averages: list[float] = []  # by stretch
        self._servers = len(servers)
        self.series = Series(servers)
        self._sum = self._squares = 0  # over the servers, of requests in flight and of their squares
        self._deviation = 0.0
        self._since = 0.0
        self._integral = 0.0  # of the deviation over time
        self._marks: list[tuple[float, float]] = []
        self._spacing = self._next_mark = 0.0

    def arrive(self, now: float) -> None:
        """Count an arrival."""
        if self.began_s is None:
            self.began_s = self._since = now
        self.arrived = arrived = self.arrived + 1
        self.open += 1
        if now >= self._warm_s:
            self._seen += self.open
            if not (arrived - self._warm_up) % self._stretch:
                self._averages.append(self._seen / self._stretch)
                self._seen = 0
        elif arrived > self._warm_up:
            self._warm_s = now
        if arrived == self._cool_down:
            self._cool_s = now
        if not self.arrived % SETTLING:
            for values in (self.ttft, self.e2e, self.wait):
                values.settle()

    def expect(self, change: int) -> None:
        """Keep the run going for requests that follow from others."""
        self.open += change

    def change(self, now: float, before: int, by: int) -> None:
        """Note that the requests in flight of one server change by one."""
        self._integral += self._deviation * (now - self._since)
        self._since = now
        if now >= self._next_mark:
            self._mark(now)
        self._sum = total = self._sum + by
        self._squares = squares = self._squares + 2 * by * before + 1
        count = self._servers
        variance = squares * count - total * total
        self._deviation = sqrt(variance) / count if variance > 0 else 0.0
        self.ended_s = now

    def finish(self, request: Request) -> None:
        """Count an answer that is complete."""
        self.open -= 1
        self.ok += 1
        arrived = request.arrived
        if self._warm_s <= arrived < self._cool_s:
            self.ttft.add(request.first - arrived)
            self.e2e.add(request.finished - arrived)
            self.wait.add(request.admitted - arrived)
        self.output_tokens += request.output_tokens
        self.prompt_tokens += request.prompt_tokens
        self.hit_tokens += request.hits

    def fail(self, error: str) -> None:
        """Count a request that got no answer."""
        self.open -= 1
        self.errors[error] = self.errors.get(error, 0) + 1

    def end(self) -> None:
        """Close the books."""
        self._marks.append((self.ended_s, self._integral))
        self.series.mark(self.ended_s)

    @property
    def duration_s(self) -> float:
        """From the first arrival to the last answer."""
        return max(0.0, self.ended_s - (self.began_s or 0.0))

    @property
    def steady(self) -> bool:
        """False when more and more requests were in the system for as long as requests came."""
        return not grows(self._averages[:STRETCHES])

    def load_stdev(self) -> float | None:
        """Return the time average of the standard deviation over the servers, the first tenth left out."""
        begin = (self.began_s or 0.0) + self.duration_s / 10
        span = self.ended_s - begin
        return (self._integral - self._integral_at(begin)) / span if span > 0 else None

    def _mark(self, now: float) -> None:
        """Keep the integral up to now; when there are many marks, only every second one."""
        self._marks.append((now, self._integral))
        if now >= self.series.next_mark:
            self.series.mark(now)
        if len(self._marks) > MARKS:
            del self._marks[1::2]
            self._spacing = 2 * (now - self._marks[0][0]) / MARKS
        self._next_mark = now + self._spacing

    def _integral_at(self, time: float) -> float:
        before = self._marks[0]
        for mark in self._marks:
            if mark[0] >= time:
                if mark[0] == before[0]:
                    return mark[1]
                share = (time - before[0]) / (mark[0] - before[0])
                return before[1] + share * (mark[1] - before[1])
            before = mark
        return before[1]
