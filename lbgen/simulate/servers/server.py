"""One server in a run: its engine, and what is counted of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.simulate.servers.keyed import engine_for
from lbgen.simulate.servers.setup import EngineFigures

if TYPE_CHECKING:
    from lbgen.simulate.servers.setup import ServerSetup


class SimulatedServer:
    """Requests in flight here are those of all balancers."""

    __slots__ = (
        "alive", "busy_s", "engine", "generated", "in_flight", "index", "max_in_flight", "requests",
        "scheduled", "setup",
    )  # fmt: skip

    def __init__(self, index: int, setup: ServerSetup, chunk_tokens: int) -> None:
        self.index = index
        self.setup = setup
        self.engine = engine_for(setup.profile, chunk_tokens=chunk_tokens)
        self.alive = True
        self.in_flight = 0
        self.max_in_flight = 0
        self.requests = 0
        self.generated = 0
        """Tokens of the answers that are complete."""
        self.busy_s = 0.0
        """Seconds that requests spent here, all together, less `in_flight` times the present one.

        So that sending takes the time off and leaving adds it, and what is in flight counts up to any moment.
        """
        self.scheduled = -1.0
        """For when the clock has an event of this server."""

    def figures(self, now: float) -> EngineFigures:
        """Return what the engine would tell on its metrics page."""
        engine = self.engine
        return EngineFigures(
            engine.running, len(engine.waiting), engine.kv_usage, self.generated + engine.generated(now)
        )
