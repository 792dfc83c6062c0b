"""The fleet that overlays, references and ``--set`` make together, as one text that reads as the same fleet.

It lies beside the rendered files, so that a later plan compares fleet with fleet. It holds only what was
written: defaults stay defaults. Secrets are references there as everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.fleet.text.yaml_flow import flow, scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Server


def merged_text(fleet: Fleet, target: str) -> str:
    """Return the fleet as YAML for one target; empty for a fleet that was not read from files.

    The target's version is written down, and servers that came from a file stand in place of it: both may be
    others by the time this is read.
    """
    values = {key: value for key, value in fleet.origins.plain().items() if not key.startswith("x-")}
    if not values:
        return ""
    values["name"] = fleet.name
    settings = (values.get("targets") or {}).get(target) or {}
    values["targets"] = {target: {**settings, "version": str(fleet.target(target).version)}}
    for pool in fleet.pools:
        if pool.discover is not None and pool.discover.file:
            del values["pools"][pool.name]["discover"]
            values["pools"][pool.name]["servers"] = [_server(server) for server in pool.servers]
    return "\n".join(_mapping(values, "")) + "\n"


def _server(server: Server) -> dict[str, Any]:
    written: dict[str, Any] = {"address": str(server.address), "name": server.name, "weight": server.weight}
    if server.max_in_flight is not None:
        written["max_in_flight"] = server.max_in_flight
    return written | {"backup": server.backup, "state": server.state.value}


def _mapping(values: dict[str, Any], indent: str) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield f"{indent}{scalar(key)}:"
            yield from _mapping(value, f"{indent}  ")
        else:
            yield f"{indent}{scalar(key)}: {flow(value)}"
