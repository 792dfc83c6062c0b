"""Whom HAProxy talks to beside the servers: name servers in `resolvers`, other balancers in `peers`."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from lbgen.targets.haproxy.language.words import duration
from lbgen.targets.haproxy.pools.learned import PEERS, sticks
from lbgen.targets.haproxy.pools.sessions import remembers
from lbgen.targets.haproxy.views import Section, syntax
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Pool


def resolvers_name(pool: Pool) -> str:
    """Return the name of the section by which this pool's names are looked up."""
    return f"dns:{pool.name}"


def resolvers(fleet: Fleet) -> tuple[Section, ...]:
    """Return a section for each pool that follows names."""
    return tuple(
        Section(Syntax(f"resolvers {resolvers_name(pool)}"), syntax(*_lines(pool)))
        for pool in fleet.pools
        if follows_names(pool)
    )


def peers(fleet: Fleet) -> tuple[Section, ...]:
    """Return the section of the balancers that share learned tables, where any is learned.

    One balancer is its own peer: when it reloads, its old process hands the tables to the new one.
    """
    own = fleet.balancers.own
    if not any(remembers(pool) or sticks(fleet, pool) for pool in fleet.pools):
        return ()
    known = fleet.balancers.peers.items() if own else [(PEERS, _own_address(fleet))]
    others = (f"peer {name} {address}" for name, address in known)
    # A name of our own has to be known before the section, also where `global` is not ours to write.
    return (
        Section(Syntax("global"), syntax(f"localpeer {own or PEERS}")),
        Section(Syntax(f"peers {PEERS}"), syntax(*others)),
    )


def _own_address(fleet: Fleet) -> str:
    """Return a socket without a file or a port (Linux), of which every HAProxy of a machine has its own."""
    binds = sorted(str(bind) for listener in fleet.listeners for bind in listener.binds)
    return f"abns@lbgen-{hashlib.sha256(' '.join(binds).encode()).hexdigest()[:16]}"


def follows_names(pool: Pool) -> bool:
    """Tell whether this pool's names are looked up again and again."""
    if pool.discover and pool.discover.dns:
        return True
    return pool.dns.mode == "runtime" and any(server.address.is_name for server in pool.servers)


def _lines(pool: Pool) -> Iterator[str]:
    for number, resolver in enumerate(pool.dns.resolver, 1):
        yield f"nameserver ns{number} {resolver}"
    if not pool.dns.resolver:
        yield "parse-resolv-conf"
    # Fleets are listed in one answer; 512 bytes hold about 28 addresses.
    yield "accepted_payload_size 8192"
    yield "resolve_retries 3"
    yield "timeout resolve 1s"
    yield "timeout retry 1s"
    valid = duration(pool.dns.valid)
    yield f"hold valid {valid}"
    # A name server that fails takes no server away; one that says so does, after a while.
    for state in ("other", "refused", "timeout", "nx", "obsolete"):
        yield f"hold {state} {valid if state == 'obsolete' else '30s'}"
