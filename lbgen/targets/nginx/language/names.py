"""What upstreams are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.model import State
from lbgen.targets.nginx.language.words import slugs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lbgen.model import Fleet, Pool, Server
    from lbgen.targets.spec import Syntax


def upstream_names(pools: Iterable[Pool]) -> Mapping[str, Syntax]:
    """Return pool name -> upstream name, unique, in lower case.

    Underscores stay, as files that lbgen did not write have them in `proxy_pass`; `Host` is always set.
    """
    return slugs((pool.name for pool in pools), keep="_")


def probe_names(fleet: Fleet) -> Mapping[str, Syntax]:
    """Return pool name -> upstream name for the `ready` probe of pools with caps.

    A server at `max_conns` looks the same as a dead one ("no live upstreams"), so these pools are probed
    through an upstream without caps.
    """
    if not any(listener.status.ready for listener in fleet.listeners):
        return {}
    own = [pool.name for pool in fleet.pools]
    made = slugs([*own, *(f"{name} ready" for name in own)], keep="_")
    return {pool.name: made[f"{pool.name} ready"] for pool in fleet.pools if pool.has_servers and pool.capped}


def serving(pool: Pool) -> tuple[Server, ...]:
    """Return the servers that take requests, backups among them."""
    return tuple(server for server in pool.servers if server.weight and server.state is State.UP)
