"""One inference server with continuous batching, driven by events: by the simulator's clock or by a real one.

Between two events nothing happens but decoding, so the engine leaps: all requests in the batch gain one token
a step, an answer is complete after a known number of steps, and the time that so many steps take has a closed
form. `Engine` is the plain model, where prompts cost nothing; `memory` adds prompts and the KV cache.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from math import ceil, inf, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.simulate.load.request import Request
    from lbgen.simulate.servers.step_times.profiles import Profile


class Engine:
    """A batch of so many slots and a queue before it. Times are seconds; they never run backwards.

    A step's batch is fixed when the step begins: who arrives during it joins the next one.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.due = inf
        """When something happens next that the outside has to know: `advance` to it. Infinite: idle."""
        self.waiting: deque[Request] = deque()
        self.firsts: list[Request] | None = None
        """Where requests are put whose `first` is known by now, if anybody wants to know."""
        self.preemptions = 0
        self._slots = profile.slots
        self._step_time = profile.step
        self._per_request = profile.per_request
        self._clock = 0.0  # the step boundary up to which everything is done
        self._number = 0  # steps done
        self._steps = 0  # steps from there to `due`
        self._pace = 0.0  # seconds for the first of these steps
        self._slope = 0.0  # half of what each step takes longer than the one before
        self._decoding: list[tuple[int, int, Request]] = []  # a heap by the step of the last token
        self._sequence = 0  # order of admission, to break ties
        self._dropped: list[Request] = []

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._decoding)

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache in use, 0 to 1; in the plain model, of the slots."""
        return len(self._decoding) / self._slots

    def submit(self, request: Request, now: float) -> None:
        """Take a request; everything up to `now` has been advanced over."""
        waiting = self.waiting
        if self.due == inf:
            self._clock = now
            waiting.append(request)
            self._plan()
        else:
            # Behind others that wait it changes nothing; with a free slot it joins at the next step.
            if not waiting and self.running < self._slots:
                self._stop_after(now)
            waiting.append(request)

    def advance(self, now: float) -> list[Request]:
        """Work until `now`; return the requests that finished, in order."""
        finished: list[Request] = []
        while self.due <= now:
            self._settle(finished)
        return finished

    def cancel(self, request: Request, now: float) -> None:
        """Let go of a request whose client has left, at the end of the present step.

        It may still finish with that step: `advance` then returns it, marked as cancelled.
        """
        request.cancelled = True
        if request in self.waiting:
            self.waiting.remove(request)
        else:
            self._dropped.append(request)
        if self.due != inf:
            self._stop_after(now)

    def empty(self) -> list[Request]:
        """Lose everything, as a server does that dies; return the requests that were there."""
        lost = [*(request for _, _, request in sorted(self._decoding)), *self.waiting]
        self._decoding.clear()
        self.waiting.clear()
        self._dropped.clear()
        self.due = inf
        return lost

    def produced(self, request: Request, now: float) -> int:
        """Return how many tokens of an answer exist; everything up to `now` has been advanced over."""
        if request.finished >= 0:
            return request.output_tokens
        if not request.end:
            return request.produced
        steps = self._steps_until(now)
        if self._elapsed(steps) > now - self._clock:
            steps -= 1
        return request.produced + self._number + min(steps, self._steps) - request.begin

    def generated(self, now: float) -> int:
        """Return how many tokens unfinished answers have; everything up to `now` has been advanced over."""
        waiting = sum(request.produced for request in self.waiting)
        return waiting + sum(self.produced(request, now) for _, _, request in self._decoding)

    def _settle(self, finished: list[Request]) -> None:
        """Do the planned steps, let go of who is done, and plan on."""
        self._clock = clock = self.due
        self._number = number = self._number + self._steps
        decoding = self._decoding
        while decoding and decoding[0][0] <= number:
            request = heappop(decoding)[2]
            request.finished = clock
            finished.append(request)
        if self._dropped:
            self._let_go()
        self._plan()

    def _plan(self) -> None:
        """Fill the batch, and find out when the next thing happens."""
        decoding, waiting = self._decoding, self.waiting
        count = len(decoding)
        if waiting and count < self._slots:
            count = self._admit(count)
        if not count:
            self.due = inf
            return
        self._pace = pace = self._step_time + self._per_request * count
        self._steps = steps = decoding[0][0] - self._number
        self.due = self._clock + steps * pace

    def _admit(self, count: int) -> int:
        clock, number, waiting = self._clock, self._number, self.waiting
        fresh = []
        while waiting and count < self._slots:
            request = waiting.popleft()
            request.admitted = clock
            request.begin = number
            request.end = end = number + request.output_tokens
            self._sequence += 1
            heappush(self._decoding, (end, self._sequence, request))
            fresh.append(request)
            count += 1
        first = clock + self._step_time + self._per_request * count
        for request in fresh:
            request.first = first
        if self.firsts is not None:
            self.firsts += fresh
        return count

    def _stop_after(self, now: float) -> None:
        """End the planned steps with the one that `now` falls into."""
        if self._steps > 1:
            steps = self._steps_until(now)
            if steps < self._steps:
                self._steps = steps
                self.due = self._clock + self._elapsed(steps)

    def _elapsed(self, steps: int) -> float:
        """Return the seconds that so many of the planned steps take."""
        return steps * self._pace + self._slope * steps * (steps - 1)

    def _steps_until(self, now: float) -> int:
        """Return the fewest steps, at least one, whose end is not before `now`."""
        span = now - self._clock
        if not self._slope:
            steps = max(1, ceil(span / self._pace))
        else:
            linear = self._pace - self._slope
            root = linear + sqrt(linear * linear + 4 * self._slope * span)
            steps = max(1, ceil(2 * span / root))
        while self._elapsed(steps) < span:  # rounding may leave it one short, or one too many
            steps += 1
        while steps > 1 and self._elapsed(steps - 1) >= span:
            steps -= 1
        return steps

    def _let_go(self) -> None:
        self._decoding = [entry for entry in self._decoding if not entry[2].cancelled]
        heapify(self._decoding)
        self._dropped.clear()
