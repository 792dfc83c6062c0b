"""What runs now: servers by a runtime socket or a page, or the little that a metrics listener counts."""

from __future__ import annotations

import re
from base64 import b64encode
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, NamedTuple

from lbgen.deploy.runtime.differences import Difference, differences
from lbgen.deploy.runtime.running import pools_of, servers_of
from lbgen.deploy.runtime.runtime_socket import RuntimeSocket
from lbgen.problems import LbgenError
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.deploy.runtime.running import RunningPool, RunningServer
    from lbgen.deploy.runtime.watched_files import Watcher
    from lbgen.model import Metrics
    from lbgen.secret_values import RealSecrets
    from lbgen.targets.inventory import Inventory, ServerEntry
    from lbgen.targets.watching import RunningHost
    from lbgen.units import Address

STUB_STATUS = "/stub_status"
TIMEOUT_S = 5.0
CHECKED_BY_S = 60
"""By when a server's first health check should have finished, seconds after the start."""
_EVERY_ADDRESS = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
_STUB = re.compile(
    r"Active connections: (\d+)\s+server accepts handled requests\s+(\d+) (\d+) (\d+)\s+"
    r"Reading: (\d+) Writing: (\d+) Waiting: (\d+)"
)


class RuntimeStatus(NamedTuple):
    """What one process runs, by its runtime socket."""

    target: str
    place: str
    version: str
    uptime_s: int
    pools: Mapping[str, RunningPool]
    servers: Mapping[tuple[str, str], RunningServer]
    differences: tuple[Difference, ...]
    """From what the fleet says."""

    @property
    def unchecked(self) -> tuple[RunningServer, ...]:
        """Servers that get requests, and whose first health check has not finished in due time."""
        return tuple(
            server
            for server in self.servers.values()
            if server.unchecked and (server.check == "UNK" or self.uptime_s >= CHECKED_BY_S)
        )

    def of(self, pool: str) -> list[RunningServer]:
        """Return a pool's servers."""
        return [server for (name, _), server in self.servers.items() if name == pool]


class WatchedServer(NamedTuple):
    """A server as the program tells of it, with what the fleet calls it."""

    name: str
    host: RunningHost
    checked: bool
    """The fleet has its health checked."""


class WatchedStatus(NamedTuple):
    """What one process runs that watches its files."""

    target: str
    place: str
    version: str
    uptime_s: int
    servers: Mapping[str, tuple[WatchedServer, ...]]
    """By pool."""
    ejections: Mapping[str, int]
    """By pool, since it is known."""
    differences: tuple[Difference, ...]
    """From what the fleet says."""


class CountedStatus(NamedTuple):
    """What a metrics listener counts, of all workers and listeners together; none of it by server."""

    target: str
    place: str
    active: int
    """Open connections of clients."""
    accepted: int
    handled: int
    requests: int
    """Since it was started."""
    reading: int
    writing: int
    """Requests in flight, this question among them."""
    waiting: int


class NoStatus(NamedTuple):
    """A balancer that could not be asked."""

    target: str
    place: str
    error: str


def runtime_status(target: str, place: str, file: Inventory) -> RuntimeStatus | NoStatus:
    """Ask one runtime socket; `file`: what should run."""
    socket = RuntimeSocket(place)
    try:
        info, stats, states = socket.info(), socket.stats(), socket.states()
    except LbgenError as error:
        return NoStatus(target, place, str(error))
    servers = servers_of(stats, states)
    return RuntimeStatus(
        target,
        place,
        info.version,
        info.uptime_s,
        pools_of(stats),
        servers,
        tuple(differences(file, servers)),
    )


def watched_status(watcher: Watcher, file: Inventory) -> WatchedStatus | NoStatus:
    """Ask one balancer that watches its files; `file`: what should run."""
    try:
        process = watcher.process()
    except LbgenError as error:
        return NoStatus(watcher.target, watcher.place, str(error))
    servers, differing = {}, list[Difference]()
    for pool in watcher.fleet.pools:
        entries = file.pools[pool.name].servers if pool.name in file.pools else {}
        hosts = [host for host in process.hosts if host.pool == pool.name]
        names = {entry.address: name for name, entry in entries.items()}
        found = tuple(
            WatchedServer(names.get(_said(host), host.address), host, pool.health is not None)
            for host in hosts
        )
        servers[pool.name] = found
        differing += _differing(
            pool.name, entries, found, discovers=bool(pool.discover and pool.discover.dns)
        )
    return WatchedStatus(
        watcher.target,
        watcher.place,
        process.version,
        process.uptime_s,
        servers,
        process.ejections,
        tuple(differing),
    )


def _said(host: RunningHost) -> str:
    """Return a running server's address as the file says it: by its name, where it has one."""
    return f"{host.hostname}:{host.address.rpartition(':')[2]}" if host.hostname else host.address


def _differing(
    pool: str, entries: Mapping[str, ServerEntry], running: tuple[WatchedServer, ...], *, discovers: bool
) -> Iterator[Difference]:
    by_name = {server.name: server.host for server in running}
    for name, entry in entries.items():
        if name not in by_name:
            yield Difference(pool, name, "is in the fleet, but not running")
            continue
        host = by_name[name]
        if host.weight != entry.weight:
            yield Difference(pool, name, f"runs with weight {host.weight}, in the fleet {entry.weight}")
        if host.state == "drain" and entry.state == "up":
            yield Difference(pool, name, "was drained at run time")
        elif entry.state != "up" and host.state == "up":
            yield Difference(pool, name, f"is in rotation, in the fleet it is {entry.state}")
    for name in by_name.keys() - entries.keys():
        if not discovers:
            yield Difference(pool, name, "is running, but not in the fleet")


def counted_status(target: str, metrics: Metrics, secrets: RealSecrets) -> CountedStatus | NoStatus:
    """Ask the metrics listener."""
    title, bind = TARGETS[target].title, metrics.binds[0]
    place = bind._replace(host=_EVERY_ADDRESS.get(bind.host, bind.host))
    url = f"http://{place}{STUB_STATUS}"
    try:
        text = _fetched(place, _authorization(metrics, secrets))
    except (OSError, HTTPException, LbgenError) as error:
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return NoStatus(target, url, f"{url}: no answer from {title}: {said}")
    found = _STUB.search(text)
    if found is None:
        return NoStatus(target, url, f"{url}: does not answer with {title}'s stub_status")
    return CountedStatus(target, url, *map(int, found.groups()))


def _authorization(metrics: Metrics, secrets: RealSecrets) -> dict[str, str]:
    if metrics.user is None or metrics.password is None:
        return {}
    pair = f"{metrics.user}:{secrets.resolve(metrics.password)}"
    return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _fetched(place: Address, headers: dict[str, str]) -> str:
    connection = HTTPConnection(place.host, place.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", STUB_STATUS, headers={"Connection": "close", **headers})
        answer = connection.getresponse()
        text = answer.read(4096).decode("utf-8", "replace")
    finally:
        connection.close()
    if answer.status != 200:
        raise LbgenError(f"it answers {answer.status}")
    return text
