"""A server that only shows ``stub_status``, as ``metrics``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.imports.draft import Said
from lbgen.imports.nginx.listeners.binds import listens
from lbgen.imports.values import network

if TYPE_CHECKING:
    from lbgen.imports.nginx.reading import Reading


def read_metrics(reading: Reading) -> None:
    """Read the first server all of whose locations are ``stub_status``; it needs an address of its own."""
    for level in reading.levels("server"):
        locations = level.block.inside("location")
        if not locations or not all(one.inside("stub_status") for one in locations) or reading.draft.metrics:
            continue
        binds = [one.bind for one in listens(reading, level)]
        allowed = [line for one in locations for line in one.inside("allow") if line.value != "all"]
        denied = [line for one in locations for line in one.inside("deny")]
        tree = {"bind": Said(binds[0] if len(binds) == 1 else binds, level.block.location)}
        networks = [network(line.value) for line in allowed]
        if not networks and not str(binds[0]).startswith(("127.", "[::1]")):
            port = str(binds[0]).rpartition(":")[2]
            tree["bind"] = Said(f"127.0.0.1:{port}", level.block.location)
            reading.ledger.differs(
                level.block.location, "it was open to everybody: only this host may ask now"
            )
        elif networks:
            tree["allow"] = Said(networks, allowed[0].location)
        reading.draft.metrics.update(tree)
        reading.carry(
            [*locations, *allowed, *denied, level.block, *level.block.inside("listen", "server_name")]
        )
        reading.carry(line for one in locations for line in one.inside("stub_status", "access_log"))
