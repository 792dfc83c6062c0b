"""Names of servers that stand for several addresses, as replicas of Compose and headless services do."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from lbgen.problems import warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet
    from lbgen.problems import Problem


def several_addresses(fleet: Fleet) -> Iterator[Problem]:
    """Look up every server's name, and yield those that have more than one address of a kind."""
    known: dict[str, int] = {}
    for pool in fleet.pools:
        for server in pool.servers:
            host, port = server.address
            if not server.address.is_name:
                continue
            count = known[host] if host in known else known.setdefault(host, _addresses(host))
            if count > 1:
                message = (
                    f"'{host}' has {count} addresses: HAProxy takes one of them for the server, NGINX all "
                    "that there are when it starts, each with the whole cap"
                )
                hint = f"in place of servers: discover: {{dns: {host}, port: {port}}}"
                yield warning("several-addresses", message, server.path, hint)


def _addresses(host: str) -> int:
    """Return how many addresses a name has, of the kind of which it has most; 0 where it has none here."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return 0
    kinds = [family for family, *_ in found]
    return max((kinds.count(family) for family in set(kinds)), default=0)
