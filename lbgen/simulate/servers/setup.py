"""What is simulated: servers, and the balancers before them. Times are seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lbgen.simulate.servers.step_times.profiles import Profile


class ServerSetup(NamedTuple):
    """One server."""

    name: str
    profile: Profile
    weight: int = 1
    cap: int | None = None
    """The most requests in flight that each balancer sends there."""
    available: bool = True
    backup: bool = False


class QueueSetup(NamedTuple):
    """Where requests wait in a balancer while every server is at its cap."""

    size: int = 512
    timeout_s: float = 60.0
    shortest_first: bool = False


class Detection(NamedTuple):
    """How a balancer finds out that a server is dead, or back."""

    active_s: float | None = 15.0
    """Until checks take it out of rotation; None: nobody checks."""
    back_s: float = 10.0
    """Until checks take it back."""
    failures: int = 3
    """Failed requests that eject it; 0: never."""
    eject_s: float = 10.0


WHAT = ("fail", "recover", "drain", "undrain")
"""What can happen to a server."""


class Incident(NamedTuple):
    """Something that happens to a server at a stated time."""

    at_s: float
    server: str
    what: str
    """One of `WHAT`."""


class EngineFigures(NamedTuple):
    """What an engine tells of itself."""

    running: int
    waiting: int
    kv_usage: float
    """0 to 1."""
    generated: int
    """Output tokens so far."""


class Agent(Protocol):
    """Turns what engines say of themselves into weights and caps, as `lbgen agent` does beside HAProxy."""

    def observe(self, server: str, figures: EngineFigures, now: float) -> None:
        """Take a reading of one server."""

    def verdict(self, server: str, now: float) -> tuple[int, int | None]:
        """Return the percentage of its configured weight that a server should have, and its cap."""


class Setup(NamedTuple):
    """One way to run a pool."""

    servers: tuple[ServerSetup, ...]
    strategy: str
    """Of the fleet, or a name of `lbgen.simulate.runs.peers`."""
    parameters: Mapping[str, object] = {}
    target: str | None = None
    """Whose choice it is; None: as the strategy is meant."""
    balancers: int = 1
    """Which count requests in flight each for itself: instances, or workers that share no counts."""
    queue: QueueSetup | None = QueueSetup()
    """None: when every server is full, a request is refused."""
    retries: int = 1
    """Further servers that are tried when one does not accept the connection."""
    detection: Detection = Detection()
    stale_s: float = 0.0
    """How old the counts are that choices rest on; 0: each balancer's own, which are never old."""
    incidents: tuple[Incident, ...] = ()
    agent: Callable[[tuple[str, ...], float, int], Agent] | None = None
    """Makes the agent of a strategy that needs one: servers' names, `drain_above`, number of balancers."""
    agent_s: float = 1.0
    """Time between two looks of the agent."""
    chunk_tokens: int = 512
    """Tokens in one chunk of the workload's prefixes."""
