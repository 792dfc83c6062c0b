"""The agent of `kv_cache` in predictions."""

from __future__ import annotations

from lbgen.agent import weights
from lbgen.agent.readings import Reading


class KvAgent:
    """What `lbgen agent` would answer; the simulator itself knows no agent, which stands above it."""

    def __init__(self, servers: tuple[str, ...], drain_above: float) -> None:
        self._pool = weights.Pool(servers, drain_above)

    def observe(self, server: str, running: int, waiting: int, kv_usage: float, now: float) -> None:
        """Take a reading."""
        self._pool.gauges[server].observe(Reading(running, waiting, kv_usage), now)

    def weight(self, server: str, now: float) -> int:
        """Return a percentage."""
        return self._pool.weight(server, now)
