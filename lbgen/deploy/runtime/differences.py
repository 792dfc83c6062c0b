"""How the running servers differ from what a configuration file says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.deploy.runtime.running import FORCED_DRAIN, FORCED_MAINT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.deploy.runtime.running import RunningServer
    from lbgen.targets.inventory import Inventory, ServerEntry

    Servers = Mapping[tuple[str, str], RunningServer]


class Difference(NamedTuple):
    """One thing that runs otherwise than the file says."""

    pool: str
    server: str
    words: str


def differences(file: Inventory, servers: Servers) -> Iterator[Difference]:
    """Yield them, pool by pool; of pools that HAProxy fills itself (`server-template`) none."""
    for name, pool in file.pools.items():
        if any(line.startswith("server-template ") for line in pool.settings):
            continue
        for server, entry in pool.servers.items():
            if (name, server) not in servers:
                yield Difference(name, server, "is in the file, but not running")
                continue
            for words in _server(entry, servers[name, server]):
                yield Difference(name, server, words)
        for of, server in servers:
            if of == name and server not in pool.servers:
                yield Difference(name, server, "is running, but not in the file")


def _server(entry: ServerEntry, server: RunningServer) -> Iterator[str]:
    # Of a Unix socket HAProxy does not tell the path.
    elsewhere = entry.address.rpartition(":")[2] != server.address.rpartition(":")[2] or (
        _is_ip(entry.address) and entry.address != server.address
    )
    if elsewhere and not entry.address.startswith("unix@"):
        yield f"runs at {server.address}, in the file {entry.address}"
    if not server.agent:  # which sets these all the time
        if entry.weight != server.weight:
            yield f"runs with weight {server.weight}, in the file {entry.weight}"
        if (entry.cap or 0) != (server.cap or 0):
            yield f"runs with max_in_flight {server.cap or 'none'}, in the file {entry.cap or 'none'}"
    if server.held and entry.state != "down":
        yield f"was {'drained' if server.held == 'drain' else 'put into maintenance'} at run time"
    elif entry.state == "down" and not server.admin & (FORCED_MAINT | FORCED_DRAIN):
        yield "is in rotation, in the file it is down"


def _is_ip(address: str) -> bool:
    host = address.rpartition(":")[0]
    return host.startswith("[") or not any(letter.isalpha() for letter in host)
