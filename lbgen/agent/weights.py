"""From readings to weights: how many requests a server can hold, against the others of its pool.

HAProxy's leastconn already evens out the requests in flight by itself, at once, with
numbers that are never old. What it cannot see is that one server's KV cache holds more
requests than another's. So the agent estimates that capacity, which hardly moves from
second to second, and leaves the load to leastconn: a weight that follows the load would
chase numbers that are a second old, and send a herd to whichever server looked empty.
"""

from math import exp

from lbgen.agent.readings import Reading

SETTLE_S = 20.0
"""Time constant of the estimate's average, seconds: several requests, so that a long prompt is noise."""
USED = 0.05
"""Below this use of its cache a server says nothing reliable of its capacity."""
ALIKE = 0.85
"""Servers whose estimates are this close to the best get full weight: chance alone differs as much."""
STEP = 5
"""A weight moves when it has changed by this many percent: what moves less is noise."""
LEAST = 5
"""Percent: no server that works is starved by an estimate."""
RELEASE = 0.05
"""A drained server is back when its cache use is this far below the limit."""
STALE_S = 10.0
"""Seconds after which a reading is nobody's basis any more."""


class Gauge:
    """What is known of one server."""

    __slots__ = ("capacity", "full", "reading", "seen", "sent")

    def __init__(self) -> None:
        self.reading = Reading(None, None, None)
        self.seen = float("-inf")
        """When the reading was taken, in seconds of a monotonic clock."""
        self.capacity: float | None = None
        """Requests that fit into its KV cache, by what the present ones take."""
        self.full = False
        self.sent = 100

    def observe(self, reading: Reading, now: float) -> None:
        """Take a new reading into the estimate."""
        elapsed = min(now - self.seen, SETTLE_S)
        self.reading, self.seen = reading, now
        usage, running = reading.kv_usage, reading.running
        if usage is None or not running or usage < USED:
            return
        fits = running / usage
        share = 1 - exp(-elapsed / SETTLE_S)
        self.capacity = fits if self.capacity is None else self.capacity + share * (fits - self.capacity)

    def fresh(self, now: float) -> bool:
        return now - self.seen < STALE_S


class Pool:
    """The gauges of one pool's servers, and the weights that follow from them."""

    def __init__(self, servers: tuple[str, ...], drain_above: float) -> None:
        self.gauges = {name: Gauge() for name in servers}
        self.drain_above = drain_above

    def weight(self, server: str, now: float) -> int:
        """Return the percentage of its configured weight that a server should have now.

        100 for a server of which nothing (or nothing recent) is known, and for all when
        they are alike; 0 only while its cache is over the limit and another's is not.
        Raises `KeyError` for an unknown server.
        """
        gauge = self.gauges[server]
        if not gauge.fresh(now):
            gauge.sent, gauge.full = 100, False
            return 100
        if self._drained(gauge, now):
            return 0
        wanted = self._share(gauge, now)
        if abs(wanted - gauge.sent) >= STEP or wanted == 100:
            gauge.sent = wanted
        return gauge.sent

    def _share(self, gauge: Gauge, now: float) -> int:
        known = [other.capacity for other in self.gauges.values() if other.capacity and other.fresh(now)]
        if gauge.capacity is None or not known:
            return 100
        share = gauge.capacity / max(known)
        return 100 if share >= ALIKE else max(LEAST, round(100 * share))

    def _drained(self, gauge: Gauge, now: float) -> bool:
        """Tell whether a server is to get nothing: it is full, and at least half of the pool is not."""
        usage = gauge.reading.kv_usage or 0.0
        gauge.full = usage > self.drain_above - (RELEASE if gauge.full else 0)
        if not gauge.full:
            return False
        others = [other for other in self.gauges.values() if other is not gauge and other.fresh(now)]
        roomy = [other for other in others if (other.reading.kv_usage or 0.0) <= self.drain_above]
        return 2 * len(roomy) >= len(self.gauges)
