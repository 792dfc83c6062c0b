"""One balancer: what it knows of the servers, whom it chooses, and who waits in it."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from lbgen.simulate.runs.peers import PEERS
from lbgen.strategies.registry import STRATEGIES
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from lbgen.simulate.load.request import Request
    from lbgen.simulate.servers.server import SimulatedServer
    from lbgen.simulate.servers.setup import Setup
    from lbgen.vocabulary import Chooser

HEAD_START_S = 10.0
"""The most that a short request is put before a long one in a queue of `shortest_first`."""
TOKENS_OF_HEAD_START = 2_000
"""Output tokens (prompt tokens count a tenth) that cost a request all of its head start."""


class View:
    """What one balancer knows of one server."""

    __slots__ = (
        "address", "available", "balancer", "cap", "failures", "in_flight", "index", "queue", "server",
        "weight",
    )  # fmt: skip

    def __init__(self, balancer: Balancer, server: SimulatedServer, cap: int | None) -> None:
        self.balancer = balancer
        self.server = server
        self.index = server.index
        self.weight = server.setup.weight
        self.cap = cap
        self.address = server.setup.name
        self.available = server.setup.available and server.setup.weight > 0
        self.in_flight = 0
        self.failures = 0
        self.queue: list[Waiting] = []
        """Requests bound to this server by their hash, while it is full; a heap."""

    def follow(self, percent: int, cap: int | None, *, queues: bool) -> None:
        """Take what an agent says; a cap only where there is a queue for what does not fit."""
        setup = self.server.setup
        self.weight = setup.weight * percent
        if queues:
            self.cap = min((one for one in (cap, setup.cap) if one is not None), default=None)


class Snapshot:
    """A view as it was when somebody last looked."""

    __slots__ = ("_view", "address", "in_flight", "index", "weight")

    def __init__(self, view: View) -> None:
        self._view = view
        self.index = view.index
        self.weight = view.weight
        self.address = view.address
        self.in_flight = 0

    @property
    def cap(self) -> int | None:
        return self._view.cap

    @property
    def available(self) -> bool:
        return self._view.available


class Waiting(NamedTuple):
    """A request in a queue, ordered by priority, then by when its turn is."""

    priority: int
    turn: float
    number: int
    request: Request


def chooser_of(setup: Setup) -> Chooser:
    """Return what chooses for one balancer: as a strategy of the fleet, or as another router does."""
    if setup.strategy in PEERS:
        chooser: Chooser = PEERS[setup.strategy].make(setup.chunk_tokens)
        return chooser
    own = TARGETS[setup.target].behaviour.choosers.get(setup.strategy) if setup.target else None
    return (own or STRATEGIES[setup.strategy].chooser)(setup.parameters)


class Balancer:
    """Counts its own requests and chooses by them."""

    def __init__(self, setup: Setup, servers: list[SimulatedServer], random: Random) -> None:
        self.chooser = chooser_of(setup)
        self._left: Callable[[Request], None] | None = getattr(self.chooser, "left", None)
        self.random = random
        self.views = [View(self, server, server.setup.cap) for server in servers]
        self.queue: list[Waiting] = []
        self._setup = setup
        self._number = 0
        self._primaries = [view for view in self.views if not view.server.setup.backup]
        self._backups = [view for view in self.views if view.server.setup.backup]
        self._snapshots = {view.index: Snapshot(view) for view in self.views} if setup.stale_s else {}
        self.candidates: list[View] | list[Snapshot] = []
        self.refresh()

    def refresh(self) -> None:
        """Use the backups when no other server is left, and only then."""
        alive = any(view.available for view in self._primaries)
        chosen = self._primaries if alive or not self._backups else self._backups
        if self._snapshots:
            self.candidates = [self._snapshots[view.index] for view in chosen]
        else:
            self.candidates = chosen

    def look(self) -> None:
        """Take the servers' real counts for the choices until the next look."""
        for view in self.views:
            self._snapshots[view.index].in_flight = view.server.in_flight

    def choose(self, request: Request) -> View | None:
        """Return the server for a request; None when every one is full or out."""
        index = self.chooser.choose(request, self.candidates, self.random)
        return None if index is None else self.views[index]

    def left(self, request: Request) -> None:
        """Note that a request is no longer in flight, for a chooser that counts them by prompt."""
        if self._left is not None:
            self._left(request)

    def any_available(self) -> bool:
        """Tell whether any server is in rotation."""
        return any(view.available for view in self.candidates)

    def enqueue(self, request: Request, queue: list[Waiting]) -> bool:
        """Let a request wait; return False when it may not, because the queue is full or there is none."""
        rules = self._setup.queue
        if rules is None or len(queue) >= rules.size:
            return False
        self._number += 1
        turn = request.arrived
        if rules.shortest_first:
            cost = request.prompt_tokens / 10 + (request.max_tokens or request.output_tokens)
            turn += HEAD_START_S * min(1.0, cost / TOKENS_OF_HEAD_START)
        heappush(queue, Waiting(request.priority, turn, self._number, request))
        return True

    def next_waiting(self, view: View) -> Request | None:
        """Return who may use a server that has room now: of its own queue and the common one, the first."""
        queues = [queue for queue in (view.queue, self.queue) if queue]
        if not queues:
            return None
        return heappop(min(queues, key=lambda queue: queue[0])).request
