"""Rules about servers' addresses and names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.fleet.rules.rule import Finding, Rule, is_loopback, is_loopback_name
from lbgen.problems import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.model import Fleet, Pool, Server
    from lbgen.problems import Path
    from lbgen.units import Address

_TLS_PORTS = (443, 8443)


def localhost(fleet: Fleet) -> Iterator[Finding]:
    """Find servers called localhost."""
    for pool in fleet.pools:
        for server in pool.servers:
            if is_loopback_name(server.address.host):
                message = "'localhost' may be ::1 or 127.0.0.1, and the engine listens on one of them"
                yield Finding(server.path, message, f"write 127.0.0.1:{server.address.port}")


def shared_address(fleet: Fleet) -> Iterator[Finding]:
    """Find servers that stand in two pools."""
    first: dict[Address, Pool] = {}
    told: set[tuple[str, str]] = set()
    for pool in fleet.pools:
        if len(pool.servers) == 1 and (pool.admin.clients or pool.admin.networks):
            continue  # the way of whoever runs the engine to this one of its replicas
        for server in pool.servers:
            other = first.setdefault(server.address, pool)
            # One finding for each pair of pools: a range would repeat it for every member.
            if other is not pool and (other.name, pool.name) not in told:
                told.add((other.name, pool.name))
                yield Finding(server.path, _shared_message(server, other, pool))


def _shared_message(server: Server, other: Pool, pool: Pool) -> str:
    start = f"{server.address} is in the pools '{other.name}' and '{pool.name}', which count apart: "
    caps = [one.max_in_flight for one in (other, pool)]
    if None in caps:
        return start + "least_conn sees half of its load, and each pool checks it"
    return start + f"it may hold {sum(cap or 0 for cap in caps)} requests at once"


def name_clash(fleet: Fleet) -> Iterator[Finding]:
    """Find names that are the same once they are written as the targets write them."""
    yield from _clashes("pools", ((pool.name, pool.path) for pool in fleet.pools))
    yield from _clashes("listeners", ((listener.name, listener.path) for listener in fleet.listeners))
    yield from _clashes("clients", ((client.name, client.path) for client in fleet.clients))
    for pool in fleet.pools:
        yield from _clashes(
            f"servers of '{pool.name}'", ((server.name, server.path) for server in pool.servers)
        )


def _clashes(what: str, names: Iterable[tuple[str, Path]]) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for name, path in names:
        other = seen.setdefault(name.lower().replace(".", "-").replace("_", "-"), name)
        if other != name:
            yield Finding(path, f"the {what} '{other}' and '{name}' are one name to NGINX and to metrics")


def port_without_tls(fleet: Fleet) -> Iterator[Finding]:
    """Find ports of HTTPS in pools that speak HTTP."""
    for pool in fleet.pools:
        if pool.tls is not None:
            continue
        secure = [server for server in pool.servers if server.address.port in _TLS_PORTS]
        if not secure:
            continue
        port = secure[0].address.port
        message = f"port {port} is one of HTTPS, and the pool '{pool.name}' speaks plain HTTP to it"
        if len(secure) < len(pool.servers):
            message = f"'{pool.name}' mixes port {port}, one of HTTPS, with others: a pool speaks TLS or not"
            yield Finding(secure[0].path, message, "make two pools, one with 'tls'")
        else:
            yield Finding(secure[0].path, message)


def ollama_host(fleet: Fleet) -> Iterator[Finding]:
    """Find Ollama servers on loopback that see the client's `Host`."""
    for pool in fleet.pools:
        if pool.engine != "ollama" or pool.host_header != "client":
            continue
        server = next((server for server in pool.servers if is_loopback(server.address.host)), None)
        if server is not None:
            message = "Ollama on a loopback address answers 403 to a foreign Host, such as the client's"
            yield Finding(server.path, message)


RULES = (
    Rule(
        "localhost",
        Severity.WARNING,
        "a server is called `localhost`",
        "The name resolves to ::1, 127.0.0.1 or both. NGINX treats each address as a separate server,"
        " so that half of the requests may reach a closed port; inside a container the name means the"
        " container itself.",
        "write 127.0.0.1, or the name of the other container",
        localhost,
    ),
    Rule(
        "shared-address",
        Severity.WARNING,
        "one address is a server of two pools",
        "Caps, queues, health and the counts of least_conn belong to a pool. A server in three pools "
        "with a cap of 100 each may get 300 requests at once, and each pool is unaware of the others'"
        " load.",
        "make it one pool, to which several routes lead: they can differ in timeouts, headers and priority",
        shared_address,
    ),
    Rule(
        "name-clash",
        Severity.WARNING,
        "two names differ only in case, `.`, `_` and `-`",
        "In configurations and metrics such names become the same. lbgen then appends a number, and "
        "graphs and `lbgen drain` no longer show clearly which is which.",
        "tell them apart by letters or digits",
        name_clash,
    ),
    Rule(
        "port-without-tls",
        Severity.WARNING,
        "a server's port is 443 or 8443 in a pool without `tls`",
        'A TLS port answers plain HTTP with 400 ("plain HTTP request was sent to HTTPS port"). TLS is'
        " set for a whole pool, since NGINX has one scheme for an upstream.",
        "write 'tls: {}' in the pool",
        port_without_tls,
    ),
    Rule(
        "ollama-host",
        Severity.WARNING,
        "Ollama on a loopback address, and `host_header: client`",
        "When Ollama listens on loopback, it refuses host names that are not its own, as a protection"
        " against DNS rebinding: every request through the balancer gets 403 (ollama#3269, #6021).",
        "write 'host_header: localhost' in the pool",
        ollama_host,
    ),
)
