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
        return f"take it out of what pools.{pool.name}.discover names: discovered servers have no state"
    mapping = fleet.origins.written((*server.path, "address"))
    if len(alike) == 1 and mapping:
        return f"--set '{path_text(server.path)}.state={state}'"
    if len(alike) == 1:
        return f"--set '{path_text(server.path)}={_entry(server, state)}'"
    also = ", with the range's other keys" if mapping else ""
    others = [str(other.address) for other in alike if other.name != server.name]
    return (
        f"{path_text(server.path)} is a range: write its servers one by one there{also}:\n"
        f"  - {_entry(server, state)}\n" + "\n".join(f"  - {_quoted(address)}" for address in others)
    )


def _entry(server: Server, state: str) -> str:
    return f"{{address: {_quoted(str(server.address))}, state: {state}}}"


def _quoted(address: str) -> str:
    return json.dumps(address)  # as YAML reads it, too
