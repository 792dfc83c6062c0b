"""The agent of `kv_cache` in predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.agent import weights
from lbgen.agent.readings import Reading

if TYPE_CHECKING:
    from lbgen.simulate.servers.setup import EngineFigures


class KvAgent:
    """What `lbgen agent` would answer; the simulator itself knows no agent, which stands above it."""

    def __init__(self, servers: tuple[str, ...], drain_above: float, balancers: int) -> None:
        self._pool = weights.Pool(servers, drain_above, balancers)

    def observe(self, server: str, figures: EngineFigures, now: float) -> None:
        """Take a reading."""
        self._pool.gauges[server].observe(Reading(*figures), now)

    def verdict(self, server: str, now: float) -> tuple[int, int | None]:
        """Return a percentage and a cap."""
        return self._pool.verdict(server, now) or (100, None)
