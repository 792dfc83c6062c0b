"""Which balancers a command talks to while they run, and which of their servers it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from lbgen.cli.options import nearest, option
from lbgen.deploy.drain import BySocket
from lbgen.deploy.runtime.edits import state_edit
from lbgen.deploy.runtime.watched_files import Watcher, watchers
from lbgen.problems import LbgenError
from lbgen.targets.registry import TARGETS
from lbgen.targets.watching import watched

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from lbgen.model import Fleet, Pool, Server


class Named(NamedTuple):
    """A server that the command line names as POOL/SERVER."""

    pool: Pool
    name: str
    server: Server | None
    """None: one that HAProxy discovered while running."""

    def __str__(self) -> str:
        return f"{self.pool.name}/{self.name}"


def socket_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--socket``."""
    return option(
        "--socket",
        "sockets",
        multiple=True,
        metavar="PATH|HOST:PORT",
        help="HAProxy's runtime socket, one per balancer; may be repeated. Default:"
        " targets.haproxy.runtime_socket.",
    )(function)


def server_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument POOL/SERVER."""
    return click.argument("which", metavar="POOL/SERVER")(function)


def named_server(fleet: Fleet, which: str) -> Named:
    """Return the server that POOL/SERVER names; raises `LbgenError` with the nearest one."""
    name, slash, server_name = which.partition("/")
    if not slash:
        raise click.UsageError(f"'{which}': write POOL/SERVER, such as {_example(fleet)}")
    pools = [pool.name for pool in fleet.pools]
    if name not in pools:
        raise LbgenError(f"{which}: '{name}' is not a pool of this fleet: {nearest(name, pools)}")
    pool = fleet.pool(name)
    servers = {server.name: server for server in pool.servers}
    if server_name not in servers and not (pool.discover and pool.discover.dns):
        known = nearest(server_name, servers) if servers else "it has none"
        raise LbgenError(f"{which}: pool {name} has no server '{server_name}': {known}")
    return Named(pool, server_name, servers.get(server_name))


def places(fleet: Fleet, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the runtime sockets that are given, or the fleet's; empty when it has none."""
    if given:
        return tuple(dict.fromkeys(given))
    return tuple(target.runtime_socket for target in fleet.targets if target.runtime_socket)


def balancers_for(
    fleet: Fleet, given: tuple[str, ...], named: Named, state: str
) -> tuple[BySocket | Watcher, ...]:
    """Return the running balancers that can change a server's state: of the given sockets, or the fleet's.

    Raises `LbgenError` with what to do instead.
    """
    found: list[BySocket | Watcher] = [BySocket(place) for place in places(fleet, given)]
    if not given:
        found += watchers(fleet)
    if found:
        return tuple(found)
    raise LbgenError(
        f"{_no_socket(fleet)}: change the server's state in the fleet, and apply it:\n"
        + edit(fleet, named, state)
    )


def _no_socket(fleet: Fleet) -> str:
    """Return why no socket is known, which ends with the targets that have none."""
    ours = [target.name for target in fleet.targets if TARGETS[target.name].abilities.runtime_socket]
    others = [name for name, one in TARGETS.items() if not one.abilities.runtime_socket and not watched(name)]
    if not ours:
        return " and ".join(f"{TARGETS[one.name].title} has no runtime socket" for one in fleet.targets)
    known = TARGETS[ours[0]]
    return (
        f"no runtime socket of {known.title} is known: name it with --socket, or write "
        f"targets.{known.name}.runtime_socket\n{' and '.join(TARGETS[one].title for one in others)} has none"
    )


def edit(fleet: Fleet, named: Named, state: str) -> str:
    """Return the edit of the fleet file that gives the server a state."""
    if named.server is None:
        return "a server that was discovered at run time has no entry in the fleet"
    return state_edit(fleet, named.pool, named.server, state)


def _example(fleet: Fleet) -> str:
    return next((f"{pool.name}/{pool.servers[0].name}" for pool in fleet.pools if pool.servers), "chat/gpu-0")
