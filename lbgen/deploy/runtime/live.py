"""Changing a running HAProxy over its runtime socket, so that it does what its new file says.

A server that is added this way gets what its line and `default-server` say, but for what
dynamic servers do not take; a reload gives it that, too.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from lbgen.deploy.runtime.differences import differences
from lbgen.deploy.runtime.kept import kept
from lbgen.deploy.runtime.running import running
from lbgen.deploy.runtime.runtime_socket import RuntimeSocket, commands
from lbgen.problems import LbgenError
from lbgen.units import is_ip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.deploy.runtime.running import RunningServer
    from lbgen.targets.inventory import Inventory, PoolEntry, ServerEntry

    Servers = dict[tuple[str, str], RunningServer]

REMOVAL_S = 10.0
"""How long a removed server's last requests are waited for."""
_LEFT_OUT = {"max-reuse": 1, "init-addr": 1, "resolvers": 1}
"""Parameters that no dynamic server takes (2.6 to 3.2), and how many words follow. An IP address has nothing
to look up; without `max-reuse` a connection to the server is not closed after so many requests."""
_WORD = re.compile(r"[A-Za-z0-9_./:@+=,*()%\[\]-]+")
"""What the socket reads just as the file does. It knows no quotes, and makes `n` of `\\n` (2.6 to 3.2)."""
_DYNAMIC = re.compile(r"roundrobin|leastconn|random\b.*|hash\b.*")
"""Ways to choose into which a new server fits, lbgen's consistent hash among them. `first` is none: it fills
servers by their numbers, which a reload gives by their order in the file."""


def can_add(pool: PoolEntry, entry: ServerEntry) -> bool:
    """Tell whether a server can be added to a running pool and then be what a reload would make of it."""
    return (
        has_ip(entry)
        and bool(_DYNAMIC.fullmatch(pool.strategy))
        and all(_WORD.fullmatch(word) for word in entry.rest)
    )


def has_ip(entry: ServerEntry) -> bool:
    """Tell whether nobody has to look up the server's address."""
    return is_ip(entry.address.rpartition(":")[0].strip("[]"))


def obstacle(place: str, old: Inventory, new: Inventory) -> str:
    """Return why the change from one file to the other cannot be made over the socket now; empty when it can.

    A server that was removed and lingered is gone after this, where that can be.
    """
    try:
        socket = RuntimeSocket(place)
        servers = running(socket)
        for one in differences(old, servers):
            key = (one.pool, one.server)
            known = one.pool in new.pools and one.server in old.pools[one.pool].servers
            if known and not (key in servers and servers[key].held):
                return f"{one.pool}/{one.server} {one.words}"
        for pool, name in sorted(_removed(new, old)):
            if (pool, name) in servers and (why := _deleted(socket, f"{pool}/{name}")):
                return f"{pool}/{name} still exists from before ({why})"
    except LbgenError as error:
        return str(error)
    return ""


def change(place: str, old: Inventory, new: Inventory, say: Callable[[str], None]) -> None:
    """Make the running servers what the new file says; raises `LbgenError` when HAProxy refuses.

    `say` hears of servers that stay drained, and of removed ones that still have requests in flight.
    """
    socket = RuntimeSocket(place)
    held = kept(place, old, new)
    for one in held:
        say(f"haproxy: {one.words}")
    for pool, name in sorted(_removed(new, old)):
        _add(socket, f"{pool}/{name}", new.pools[pool].servers[name])
    ready = {f"set server {one.pool}/{one.server} state ready" for one in held}
    for command in commands(old, new):
        if command not in ready:
            socket.order(command)
    lingering = _remove(socket, sorted(_removed(old, new)), say)
    wrong = [
        f"{one.pool}/{one.server} {one.words}"
        for one in differences(new, running(socket))
        if (one.pool, one.server) not in lingering | {(one.pool, one.server) for one in held}
    ]
    if wrong:
        raise LbgenError(f"{place}: after the change {wrong[0]}")


def _removed(old: Inventory, new: Inventory) -> set[tuple[str, str]]:
    """Return the servers that the first file has and the second has not, in the pools of both."""
    return {
        (pool, name)
        for pool, entry in old.pools.items()
        if pool in new.pools
        for name in entry.servers.keys() - new.pools[pool].servers.keys()
    }


def _add(socket: RuntimeSocket, name: str, entry: ServerEntry) -> None:
    command = f"add server {name} {entry.address} {' '.join(_parameters(entry))}".rstrip()
    answer = socket.ask(command).strip()
    if not answer.endswith("New server registered."):
        raise LbgenError(f"{socket.place}: '{command}' was refused: {answer or 'no answer'}")
    if "check" in entry.rest:
        socket.order(f"enable health {name}")  # a dynamic server's checks begin by order alone
    if entry.state != "down":
        socket.order(f"enable server {name}")


def _parameters(entry: ServerEntry) -> Iterator[str]:
    skip = 0
    for word in entry.rest:
        if skip:
            skip -= 1
        elif word in _LEFT_OUT:
            skip = _LEFT_OUT[word]
        else:
            yield word
    if {"ssl", "check"} <= set(entry.rest) and "port" not in entry.rest:
        yield "check-ssl"  # a server of the file takes it from `ssl`, a dynamic one does not (2.6 to 3.2)
    yield f"weight {entry.weight}"
    if entry.cap:
        yield f"maxconn {entry.cap}"
    if entry.backup:
        yield "backup"
    if entry.state == "down":
        yield "disabled"


def _remove(
    socket: RuntimeSocket, names: list[tuple[str, str]], say: Callable[[str], None]
) -> set[tuple[str, str]]:
    """Take servers out and delete them once they are idle; return, and say, which are not by then."""
    before = running(socket)
    for pool, name in names:
        if before[pool, name].agent:
            socket.order(f"disable agent {pool}/{name}")  # its 'ready' would end the maintenance
        socket.order(f"set server {pool}/{name} state maint")
    end = time.monotonic() + REMOVAL_S
    left = dict.fromkeys(names, "")
    while True:
        left = {key: why for key in left if (why := _deleted(socket, "/".join(key)))}
        if not left or time.monotonic() > end:
            break
        time.sleep(0.2)
    for (pool, name), why in left.items():
        say(
            f"haproxy: pool {pool}: {name} gets no new requests, but could not be removed within"
            f" {REMOVAL_S:.0f} s ({why}); it stays in maintenance until the next reload"
        )
    return set(left)


def _deleted(socket: RuntimeSocket, name: str) -> str:
    """Delete a server that is in maintenance; return why it could not be deleted, empty when it is gone."""
    answer = socket.ask(f"del server {name}").strip()
    return (
        "" if answer.startswith(("Server deleted", "No such server")) else answer.rstrip(".") or "no answer"
    )
