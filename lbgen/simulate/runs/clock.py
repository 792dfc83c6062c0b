"""The event loop: requests arrive, balancers choose, servers finish. Times are seconds."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from random import Random
from typing import TYPE_CHECKING

from lbgen.simulate.runs.balancer import Balancer, View, Waiting
from lbgen.simulate.runs.tally import USUAL_EDGES, Tally
from lbgen.simulate.servers.server import SimulatedServer
from lbgen.strategies.kv_cache import KvParameters
from lbgen.strategies.registry import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from lbgen.simulate.load.request import Request
    from lbgen.simulate.runs.tally import Edges
    from lbgen.simulate.servers.setup import Agent, Incident, Setup

    Follow = Callable[[Request, float], Request | None]

NEED_AGENT = {name for name, strategy in STRATEGIES.items() if "kv" in strategy.needs}


class Simulation:
    """One run of one setup. The same setup, requests and seed give the same result, to the last bit."""

    def __init__(
        self,
        setup: Setup,
        seed: int | str,
        follow: Follow | None = None,
        requests: int = 0,
        edges: Edges = USUAL_EDGES,
    ) -> None:
        """Set it up for so many `requests`, without whose edges latencies count; 0: nobody knows how many."""
        self.setup = setup
        self._follow = follow
        self._random = Random(f"balancers {seed}")  # noqa: S311 - has to be the same again
        self.servers = [
            SimulatedServer(index, server, setup.chunk_tokens) for index, server in enumerate(setup.servers)
        ]
        self._balancers = [
            Balancer(setup, self.servers, Random(f"balancer {number} {seed}"))  # noqa: S311 - likewise
            for number in range(setup.balancers)
        ]
        self._events: list[tuple[float, int, Callable[..., None], Any]] = []
        self._sequence = 0
        self.tally = Tally(self.servers, requests, edges)
        for incident in setup.incidents:
            self._at(incident.at_s, self._happen, incident)
        if setup.stale_s:
            self._at(0.0, self._look, None)
        if setup.agent is not None and setup.strategy in NEED_AGENT:
            names = tuple(server.name for server in setup.servers)
            drain_above = KvParameters.of(setup.parameters).drain_above
            self._at(0.0, self._weigh, setup.agent(names, drain_above, setup.balancers))
        self._more = True

    def run(self, requests: Iterable[Request]) -> Tally:
        """Send requests, which come in the order of their arrival, and wait for the last."""
        events, arrive = self._events, self._arrive
        for request in requests:
            now = request.arrived
            while events and events[0][0] <= now:
                time, _, action, argument = heappop(events)
                action(time, argument)
            arrive(now, request)
        self._more = False
        while events and self.tally.open:
            time, _, action, argument = heappop(events)
            action(time, argument)
        self.tally.end()
        return self.tally

    def _at(self, time: float, action: Callable[..., None], argument: object) -> None:
        self._sequence += 1
        heappush(self._events, (time, self._sequence, action, argument))

    def _arrive(self, now: float, request: Request) -> None:
        self.tally.arrive(now)
        balancers = self._balancers
        if len(balancers) == 1:
            balancer = balancers[0]
        else:
            balancer = balancers[int(self._random.random() * len(balancers))]
        self._dispatch(now, request, balancer)

    def _dispatch(self, now: float, request: Request, balancer: Balancer) -> None:
        view = balancer.choose(request)
        if view is None:
            self._wait(now, request, balancer, balancer.queue, "full")
        elif view.cap is not None and view.in_flight >= view.cap:
            self._wait(now, request, balancer, view.queue, "full")
        else:
            self._send(now, request, view)

    def _wait(
        self, now: float, request: Request, balancer: Balancer, queue: list[Waiting], error: str
    ) -> None:
        if not balancer.any_available():
            self._fail(now, request, "no_server")
        elif balancer.enqueue(request, queue):
            request.place = queue
            rules = self.setup.queue
            if rules is not None and rules.timeout_s != inf:
                self._at(now + rules.timeout_s, self._give_up, request)
        else:
            self._fail(now, request, error)

    def _give_up(self, now: float, request: Request) -> None:
        queue = request.place
        if not isinstance(queue, list):
            return  # it has been served since
        queue[:] = [entry for entry in queue if entry.request is not request]  # sorted order keeps it a heap
        queue.sort()
        self._fail(now, request, "queue_timeout")

    def _send(self, now: float, request: Request, view: View) -> None:
        server = view.server
        if not server.alive:
            self._refused(now, request, view)
            return
        request.place = view
        request.sent = now
        view.in_flight += 1
        self.tally.change(now, server.in_flight, 1)
        server.in_flight = flying = server.in_flight + 1
        server.busy_s -= now
        server.requests += 1
        server.max_in_flight = max(server.max_in_flight, flying)
        engine = server.engine
        engine.submit(request, now)
        if engine.due != server.scheduled:
            self._schedule(server, engine.due)

    def _schedule(self, server: SimulatedServer, due: float) -> None:
        server.scheduled = due
        if due != inf:
            self._sequence += 1
            heappush(self._events, (due, self._sequence, self._wake, server))

    def _wake(self, now: float, server: SimulatedServer) -> None:
        if server.scheduled != now:
            return  # what was due then has moved since
        engine = server.engine
        for request in engine.advance(now):
            self._finish(now, request)
        if engine.due != server.scheduled:
            self._schedule(server, engine.due)

    def _finish(self, now: float, request: Request) -> None:
        view = request.place
        assert isinstance(view, View)  # noqa: S101 - for the type checker
        request.place = None
        self._leave(now, view)
        view.balancer.left(request)
        view.server.generated += request.output_tokens
        self.tally.finish(request)
        self._after(now, request)
        balancer = view.balancer
        if balancer.queue or view.queue:
            self._serve_waiting(now, view)

    def _leave(self, now: float, view: View) -> None:
        server = view.server
        view.in_flight -= 1
        self.tally.change(now, server.in_flight, -1)
        server.in_flight -= 1
        server.busy_s += now

    def _serve_waiting(self, now: float, view: View) -> None:
        while view.available and (view.cap is None or view.in_flight < view.cap):
            request = view.balancer.next_waiting(view)
            if request is None:
                return
            self._send(now, request, view)

    def _after(self, now: float, request: Request) -> None:
        if self._follow is not None:
            following = self._follow(request, now)
            if following is not None:
                self.tally.expect(1)
                self._at(following.arrived, self._arrive_later, following)

    def _arrive_later(self, now: float, request: Request) -> None:
        self.tally.expect(-1)
        self._arrive(now, request)

    def _fail(self, now: float, request: Request, error: str) -> None:
        request.place = None
        for balancer in self._balancers:
            balancer.left(request)
        self.tally.fail(error)
        self._after(now, request)

    def _refused(self, now: float, request: Request, view: View) -> None:
        """Note that a connection was refused, and try another server."""
        rules, balancer = self.setup.detection, view.balancer
        view.failures += 1
        request.tries += 1
        if rules.failures and view.failures >= rules.failures and view.available:
            view.failures = 0
            self._rotate(view, available=False)
            self._at(now + rules.eject_s, self._readmit, view)
        if request.tries > self.setup.retries:
            self._fail(now, request, "connect")
            return
        was = view.available
        view.available = False  # both targets try another server than the one that just refused
        self._dispatch(now, request, balancer)
        view.available = was

    def _readmit(self, now: float, view: View) -> None:
        del now
        self._rotate(view, available=True)

    def _rotate(self, view: View, *, available: bool) -> None:
        view.available = available and view.server.setup.weight > 0
        view.balancer.refresh()

    def _look(self, now: float, argument: None) -> None:
        for balancer in self._balancers:
            balancer.look()
        if self._more or self.tally.open:
            self._at(now + self.setup.stale_s, self._look, argument)

    def _weigh(self, now: float, agent: Agent) -> None:
        for server in self.servers:
            if server.alive:
                agent.observe(server.setup.name, server.figures(now), now)
        verdicts = [agent.verdict(server.setup.name, now) for server in self.servers]
        for balancer in self._balancers:
            for view, (percent, cap) in zip(balancer.views, verdicts, strict=True):
                view.follow(percent, cap, queues=self.setup.queue is not None)
            if balancer.queue:
                for view in balancer.views:
                    self._serve_waiting(now, view)
        if self._more or self.tally.open:
            self._at(now + self.setup.agent_s, self._weigh, agent)

    def _happen(self, now: float, incident: Incident) -> None:
        server = next(server for server in self.servers if server.setup.name == incident.server)
        rules = self.setup.detection
        if incident.what == "fail":
            server.alive = False
            for request in server.engine.empty():
                self._lose(now, request)
            if rules.active_s is not None:
                self._at(now + rules.active_s, self._noticed, (server, False))
        elif incident.what == "recover":
            server.alive = True
            if rules.active_s is not None:
                self._at(now + rules.back_s, self._noticed, (server, True))
        else:
            self._set_all(now, server, available=incident.what == "undrain")

    def _noticed(self, now: float, argument: tuple[SimulatedServer, bool]) -> None:
        server, alive = argument
        if server.alive is alive:
            self._set_all(now, server, available=alive)

    def _set_all(self, now: float, server: SimulatedServer, *, available: bool) -> None:
        for balancer in self._balancers:
            view = balancer.views[server.index]
            self._rotate(view, available=available)
            if available:
                self._serve_waiting(now, view)
            else:
                bound, view.queue[:] = list(view.queue), []
                for entry in bound:  # as HAProxy's redispatch does
                    self._dispatch(now, entry.request, balancer)

    def _lose(self, now: float, request: Request) -> None:
        view = request.place
        if isinstance(view, View):
            self._leave(now, view)
            self._fail(now, request, "reset")
