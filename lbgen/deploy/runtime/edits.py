"""How a server's state is changed in the fleet file, in words that can be typed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lbgen.problems import path_text

if TYPE_CHECKING:
    from lbgen.model import Fleet, Pool, Server


def state_edit(fleet: Fleet, pool: Pool, server: Server, state: str) -> str:
    """Return the edit that gives a server a state: an option for `apply`, or the lines of the file."""
    alike = [other for other in pool.servers if other.path == server.path]
    if pool.discover:
        return f"remove it from the source of pools.{pool.name}.discover: discovered servers have no state"
    mapping = fleet.origins.written((*server.path, "address"))
    if len(alike) == 1 and mapping:
        return f"--set '{path_text(server.path)}.state={state}'"
    if len(alike) == 1:
        return f"--set '{path_text(server.path)}={_entry(server, state)}'"
    also = ", with the range's other keys" if mapping else ""
    named = fleet.origins.written((*server.path, "name"))  # else they would get others, as single servers
    lines = [_entry(server, state, named=named)]
    lines += [_entry(other, named=named) for other in alike if other.name != server.name]
    return f"{path_text(server.path)} is a range: list its servers separately{also}:\n" + "\n".join(
        f"  - {line}" for line in lines
    )


def _entry(server: Server, state: str = "", *, named: bool = False) -> str:
    """Return a server as an entry of the list: an address alone, where nothing else is said of it."""
    address = _quoted(str(server.address))
    said = [f"name: {_quoted(server.name)}"] * named + [f"state: {state}"] * bool(state)
    return f"{{{', '.join([f'address: {address}', *said])}}}" if said else address


def _quoted(address: str) -> str:
    return json.dumps(address)  # as YAML reads it, too
