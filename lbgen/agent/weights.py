"""From readings to what HAProxy is told: how many requests a server takes, and which one is preferred.

HAProxy's leastconn evens out the requests in flight by itself, at once, with numbers that are never old.
What it cannot see is how many requests fit into a server, and how fast that one is. Both hardly move from
second to second, so that old numbers do no harm; a weight that followed the load would send a herd to
whichever server looked empty.

- *The room* of a server becomes its ``maxconn``: what does not fit waits in HAProxy, for whichever server is
  free first, in place of one engine's queue while others idle. It is what the KV cache holds (requests that
  run, divided by the share that they use), and at most what ran while others waited and nothing changed: the
  engine's own limit. Requests also wait while the engine computes prompts, with places free.
- *Weights* are the room, by the KV cache, times the square of the tokens a second of one request. The square
  sends a slow server little until the fast ones are full: with one server of half the speed, the P99 of whole
  answers was 20 % below plain leastconn's by the speed itself, and 34-39 % by its square (simulated, loads of
  0.5 to 0.8).

`docs/strategies.md` has what was measured.
"""

from math import ceil, exp
from typing import NamedTuple

from lbgen.agent.readings import MOST_REQUESTS, Reading

ROOM_S = 60.0
"""Time constant of the room's average, seconds: many requests, so that a long prompt is noise."""
WEIGHT_S = 300.0
"""The same of what weights rest on: noise costs equal servers more than lateness costs unequal ones."""
ENOUGH_S = 30.0
"""Seconds of readings before a weight rests on them."""
USED = 0.05
"""Below this use of its cache a server says nothing reliable of its room."""
UNLIKE = 0.75
"""Servers count as unlike the best below this share of it: chance alone differs by less than that."""
ALIKE = 0.85
"""An unlike server counts as alike again above this share."""
STEP = 5
"""A weight moves when it has changed by this many percent."""
LEAST = 5
"""Percent: no server that works is starved by an estimate."""
PEAK_S = 120.0
"""Time constant at which the most requests that ran at once are forgotten."""
AT_PEAK = 0.95
"""An engine that lets requests wait may be full when this share of its peak runs, or one less than the peak
(its figures may be taken between an answer's end and the next step); below it computes prompts."""
FULL_S = 15.0
"""For how long requests have to wait, and no more of them run, until that is taken for the engine's limit.

They also wait while prompts are computed, with places free: vLLM 0.32 with 8 places showed 5 that ran and
others that waited, for seconds. As soon as more run than before, there was room."""
MOST_TOKENS_S = 100_000.0
"""Tokens a second of one request: more is a counter that jumped."""
LIMIT_STEP = 0.1
"""By what share of the difference a limit follows the last look."""
SLACK = 0.05
"""What is sent above the room, as a share of it, and one more.

What waits in the engine is there when a place becomes free: until HAProxy has seen the end of an answer
and the engine has the next request, time passes. Without it equal servers lost on the real HAProxy (3.0, load
of 0.9): the P99 to the first token was two to three times that of leastconn, and half as much again in a
simulation with 150 ms for that time. With twice as much a pool with a slow server gained nothing. It also
shows when a server is full, and lets a limit grow that was found too low.
"""
ROUNDING = 1e-6
"""What a room may exceed a whole number by: floating point leaves averages a little above one."""
COMPARE_S = 1.0
"""Time for which a comparison of all servers holds, seconds: each answer would cost one otherwise."""
GAP_S = 10.0
"""Longest time between two readings that still belong together."""


class Verdict(NamedTuple):
    """What a server should have now."""

    percent: int
    """Of its configured weight."""
    cap: int | None
    """Requests in flight from each balancer; None: no limit is known."""


class Average:
    """One sum divided by another, both over time and damped: long looks and full servers count more."""

    __slots__ = ("_constant", "_over", "_under", "seconds")

    def __init__(self, constant: float) -> None:
        self._constant = constant
        self._over = self._under = 0.0
        self.seconds = 0.0
        """Of readings, the older ones less."""

    def add(self, over: float, under: float, seconds: float) -> None:
        """Take in what held for so many seconds."""
        kept = exp(-seconds / self._constant)
        self._over = self._over * kept + over * seconds
        self._under = self._under * kept + under * seconds
        self.seconds = self.seconds * kept + seconds

    def value(self, enough_s: float = 0.0) -> float | None:
        """Return the quotient; None before so many seconds of readings."""
        return self._over / self._under if self._under > 0 and self.seconds >= enough_s else None


class Gauge:
    """What is known of one server."""

    __slots__ = (
        "_full_s",
        "_lately",
        "_most",
        "_peak",
        "limit",
        "long",
        "reading",
        "seen",
        "sent",
        "speed",
        "unlike",
    )

    def __init__(self) -> None:
        self.reading: Reading | None = None
        self.seen = float("-inf")
        """When the reading was taken, in seconds of a monotonic clock."""
        self._lately = Average(ROOM_S)
        self.long = Average(WEIGHT_S)
        """Requests that would fill the KV cache, by what the present ones take."""
        self.speed = Average(WEIGHT_S)
        """Tokens a second of one request."""
        self.limit: float | None = None
        """Requests that the engine computes at once, as far as it was ever full."""
        self._peak = 0.0
        self._full_s = 0.0
        """For how many seconds it has looked full, and no more requests ran than `_most`."""
        self._most = 0.0
        self.unlike = [False, False]
        """Whether its room and its speed count as less than the best's."""
        self.sent = 100

    def observe(self, reading: Reading, now: float) -> None:
        """Take a new reading into the estimates."""
        before = self.reading if now - self.seen <= GAP_S else None
        elapsed = now - self.seen if before else 1.0
        self.reading, self.seen = reading, now
        if reading.running is None or elapsed <= 0:
            return
        self._peak = max(reading.running, self._peak * exp(-elapsed / PEAK_S))
        if reading.running and reading.kv_usage and reading.kv_usage >= USED:
            self._lately.add(reading.running, reading.kv_usage, elapsed)
            self.long.add(reading.running, reading.kv_usage, elapsed)
        if before and before.running is not None:
            self._time(before, reading, elapsed)
            self._find_limit(before, reading, elapsed)

    def room(self, fill: float) -> float | None:
        """Return how many requests fit when the KV cache may be full to this share."""
        fits = self._lately.value()
        known = [value for value in (fits and fits * fill, self.limit) if value and value <= MOST_REQUESTS]
        return min(known, default=None)

    def _time(self, before: Reading, reading: Reading, elapsed: float) -> None:
        """Measure the speed; a counter that went back is that of an engine started anew."""
        if before.generated is None or reading.generated is None or reading.generated < before.generated:
            return
        running = ((before.running or 0) + (reading.running or 0)) / 2
        made = (reading.generated - before.generated) / elapsed
        if running and made <= MOST_TOKENS_S * running:
            self.speed.add(made, running, elapsed)

    def _find_limit(self, before: Reading, reading: Reading, elapsed: float) -> None:
        """Note how many requests run while others wait, in two looks: any request waits for the next step."""
        running = max(reading.running or 0.0, before.running or 0.0)
        if self.limit is not None and running > self.limit:
            self.limit = running
        if not (reading.waiting and before.waiting) or running < min(AT_PEAK * self._peak, self._peak - 1):
            self._full_s = self._most = 0.0
            return
        self._full_s = self._full_s + elapsed if running <= self._most else 0.0
        self._most = max(running, self._most)
        if self._full_s >= FULL_S:
            full = self._most
            self.limit = full if self.limit is None else self.limit + LIMIT_STEP * (full - self.limit)


class Best(NamedTuple):
    """The best of a pool, which the others are compared with; None: nothing to compare."""

    room: float | None
    speed: float | None
    by_limit: bool
    """Rooms are compared by the engines' limits, because no KV cache is known."""


class Pool:
    """The gauges of one pool's servers, and what follows from them."""

    def __init__(self, servers: tuple[str, ...], drain_above: float, balancers: int = 1) -> None:
        """`drain_above`: how full the KV caches may become; `balancers`: how many share the servers' room."""
        self.gauges = {name: Gauge() for name in servers}
        self.drain_above = drain_above
        self.balancers = balancers
        self._best = Best(None, None, by_limit=False)
        self._compared = float("-inf")

    def verdict(self, server: str, now: float) -> Verdict | None:
        """Return what a server should have now; None before its first reading.

        What is known stays while an engine is silent: its room does not depend on whether it answers. Raises
        `KeyError` for an unknown server.
        """
        gauge = self.gauges[server]
        if gauge.reading is None:
            return None
        if now - self._compared >= COMPARE_S:
            self._best, self._compared = self._compare(), now
        room = gauge.room(self.drain_above)
        cap = None if room is None else ceil((ceil(room * (1 + SLACK) - ROUNDING) + 1) / self.balancers)
        return Verdict(self._percent(gauge), cap)

    def _compare(self) -> Best:
        gauges = self.gauges.values()
        rooms = [value for gauge in gauges if (value := gauge.long.value(ENOUGH_S))]
        limits = [gauge.limit for gauge in gauges if gauge.limit]
        by_limit = not rooms and len(limits) == len(gauges)
        speeds = [value for gauge in gauges if (value := gauge.speed.value(ENOUGH_S))]
        return Best(max(limits if by_limit else rooms, default=None), max(speeds, default=None), by_limit)

    def _percent(self, gauge: Gauge) -> int:
        best = self._best
        room = gauge.limit if best.by_limit else gauge.long.value(ENOUGH_S)
        share = (
            _share(gauge, 0, room, best.room) * _share(gauge, 1, gauge.speed.value(ENOUGH_S), best.speed) ** 2
        )
        wanted = max(LEAST, round(100 * share))
        if wanted == 100 or abs(wanted - gauge.sent) >= STEP:
            gauge.sent = wanted
        return gauge.sent


def _share(gauge: Gauge, which: int, own: float | None, best: float | None) -> float:
    """Return a figure as a share of the best one; 1 for what is alike, or not known."""
    if own is None or not best:
        return 1.0
    share = own / best
    gauge.unlike[which] = share < (ALIKE if gauge.unlike[which] else UNLIKE)
    return share if gauge.unlike[which] else 1.0
