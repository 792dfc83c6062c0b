"""Taking a server out of rotation while the balancers run, and waiting for its last request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lbgen.deploy.runtime.running import FORCED_DRAIN, FORCED_MAINT, running
from lbgen.deploy.runtime.runtime_socket import RuntimeSocket
from lbgen.problems import LbgenError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lbgen.deploy.runtime.running import RunningServer

POLL_S = 0.5
SETTLE_S = 0.1
"""Until the first look: a request that was being assigned is counted by then."""


class Seen(NamedTuple):
    """What one balancer said last."""

    place: str
    in_flight: int | None = None
    """None: not known."""
    error: str = ""
    pid: str = ""
    uptime_s: int | None = None
    """How long its process ran when the drain began; None: no reload makes another one."""
    last: bool = False
    """No other server of the pool is in rotation."""

    @property
    def idle(self) -> bool:
        return self.in_flight == 0


class Outcome(NamedTuple):
    """How a drain ended."""

    seen: tuple[Seen, ...]
    waited_s: float

    @property
    def in_flight(self) -> int:
        """All requests in flight that are known of."""
        return sum(one.in_flight or 0 for one in self.seen)

    @property
    def silent(self) -> tuple[Seen, ...]:
        """The balancers on which it is not known whether the server is out and idle."""
        return tuple(one for one in self.seen if one.error)


class Balancer(Protocol):
    """One running balancer."""

    @property
    def place(self) -> str:
        """Where it is asked."""

    def taken_out(self, pool: str, name: str, *, bound: bool) -> Seen:
        """Take a server out of rotation; raises `LbgenError`."""

    def look(self, last: Seen, pool: str, name: str) -> Seen:
        """Look at it again; raises `LbgenError` when it is not known any more whether it is out and idle."""


def drain(  # noqa: PLR0913 - the server, and how to wait
    balancers: Sequence[Balancer],
    pool: str,
    name: str,
    *,
    bound: bool = False,
    timeout_s: float,
    report: Callable[[Outcome], None],
) -> Outcome:
    """Take the server out of rotation everywhere and wait until it is idle; `report` hears of each look.

    `bound`: clients are bound to servers by a learned table, and would go on coming to
    one that is only drained: it goes to maintenance. Balancers that do not answer are in
    the outcome; an exception, such as a keyboard interrupt, leaves the server out.
    """
    begin = time.monotonic()
    seen = tuple(_taken_out(one, pool, name, bound=bound) for one in balancers)
    time.sleep(SETTLE_S)
    while True:
        seen = tuple(_look(one, last, pool, name) for one, last in zip(balancers, seen, strict=True))
        outcome = Outcome(seen, time.monotonic() - begin)
        report(outcome)
        if all(one.idle or one.error for one in seen) or outcome.waited_s >= timeout_s:
            return outcome
        time.sleep(min(POLL_S, max(begin + timeout_s - time.monotonic(), 0)))


def _taken_out(balancer: Balancer, pool: str, name: str, *, bound: bool) -> Seen:
    try:
        return balancer.taken_out(pool, name, bound=bound)
    except LbgenError as error:
        return Seen(balancer.place, error=str(error))


def _look(balancer: Balancer, last: Seen, pool: str, name: str) -> Seen:
    """Look at one balancer again; one that failed before is left alone."""
    if last.error:
        return last
    try:
        return balancer.look(last, pool, name)
    except LbgenError as error:
        return last._replace(in_flight=None, error=str(error))


class BySocket(NamedTuple):
    """A HAProxy behind its runtime socket."""

    place: str

    def taken_out(self, pool: str, name: str, *, bound: bool) -> Seen:
        """Drain the server, or put it into maintenance where clients are bound to it."""
        socket = RuntimeSocket(self.place)
        servers = running(socket)
        server = _named(socket, servers, pool, name)
        others = (one for (of, other), one in servers.items() if of == pool and other != name)
        last = not any(one.state == "up" for one in others)
        info = socket.info()
        take_out(socket, server, "maint" if bound else "drain")
        return Seen(self.place, server.in_flight, pid=info.pid, uptime_s=info.uptime_s, last=last)

    def look(self, last: Seen, pool: str, name: str) -> Seen:
        """Count what is in flight and waits there."""
        socket = RuntimeSocket(self.place)
        server = the_server(socket, pool, name)
        pid = socket.info().pid
        if not server.admin & (FORCED_DRAIN | FORCED_MAINT):
            raise LbgenError(
                f"{self.place}: {pool}/{name} was put back into rotation by another program or person"
            )
        if pid != last.pid and not last.idle:
            raise LbgenError(
                f"{self.place}: HAProxy was reloaded: requests that its old process is still finishing"
                " are not visible"
            )
        return last._replace(in_flight=server.in_flight + server.queued, pid=pid)

    def put_back(self, pool: str, name: str) -> tuple[str, str]:
        """Take the server back; return its status then, in HAProxy's word, and its last check."""
        server = put_back(RuntimeSocket(self.place), pool, name)
        return server.status, server.check


def take_out(socket: RuntimeSocket, server: RunningServer, state: str) -> None:
    """Set a server to ``drain`` or ``maint``; one that is in maintenance stays there."""
    name = f"{server.pool}/{server.name}"
    if server.agent:
        # Its next word would be 'ready', which ends a drain and a maintenance (seen on 2.6 to 3.2).
        socket.order(f"disable agent {name}")
    if not server.admin & FORCED_MAINT:
        socket.order(f"set server {name} state {state}")


def put_back(socket: RuntimeSocket, pool: str, name: str) -> RunningServer:
    """Take a server back into rotation and return what it is then; raises `LbgenError`."""
    server = the_server(socket, pool, name)
    socket.order(f"set server {pool}/{name} state ready")
    if server.agent:
        socket.order(f"enable agent {pool}/{name}")
    return the_server(socket, pool, name)


def the_server(socket: RuntimeSocket, pool: str, name: str) -> RunningServer:
    """Return a running server; raises `LbgenError` when it does not run there."""
    return _named(socket, running(socket), pool, name)


def _named(
    socket: RuntimeSocket, servers: Mapping[tuple[str, str], RunningServer], pool: str, name: str
) -> RunningServer:
    if (pool, name) in servers:
        return servers[pool, name]
    names = ", ".join(other for of, other in servers if of == pool)
    there = f"pool {pool} has {names}" if names else f"it has no pool {pool}"
    raise LbgenError(f"{socket.place}: has no server {pool}/{name}: {there}")
