"""The servers of a pool: ranges expanded, names given, duplicates found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.fields import INVALID
from lbgen.fleet.build.context import usable
from lbgen.model import Server, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lbgen.fleet.build.context import Context
    from lbgen.problems import Path
    from lbgen.units import Address

_STATES = {state.value: state for state in State}


class Draft(NamedTuple):
    """A server whose name may still depend on the others."""

    address: Address
    name: str
    """Empty: to be made from the address."""
    values: Mapping[str, Any]
    path: Path


def servers(context: Context, entries: Any, path: Path) -> tuple[Server, ...]:  # noqa: ANN401 - as read
    """Return the servers that the entries of a pool stand for. `path`: the pool's ``servers``."""
    single = not context.document.written((*path, 0))
    drafts = [
        draft
        for index, entry in enumerate(entries)
        if entry is not INVALID
        for draft in _drafts(context, entry, path if single else (*path, index))
    ]
    return named(context, drafts)


def named(context: Context, drafts: list[Draft]) -> tuple[Server, ...]:
    """Return servers with all their names given; complains about what is there twice."""
    seen_addresses: dict[Address, Path] = {}
    seen_names: dict[str, Path] = {}
    made = []
    hosts = _count(draft.address.host for draft in drafts)
    for address, given, values, path in drafts:
        if address in seen_addresses:
            _twice(context, "duplicate-server", f"the server {address}", seen_addresses[address], path)
            continue
        seen_addresses[address] = path
        name = given or _name(address, hosts[address.host] > 1)
        if name in seen_names:
            _twice(context, "duplicate-name", f"a server named '{name}'", seen_names[name], path)
            continue
        seen_names[name] = path
        made.append(_server(address, name, values, path))
    return tuple(made)


def _twice(context: Context, code: str, what: str, first: Path, again: Path) -> None:
    if first == again:
        context.error(code, f"this entry stands for {what} more than once", again)
    else:
        context.error(code, f"{what} is there twice; the first is at {context.place(first)}", again)


def _server(address: Address, name: str, values: Mapping[str, Any], path: Path) -> Server:
    if not values:
        return Server(address, name, 1, None, State.UP, backup=False, path=path)
    return Server(
        address,
        name,
        1 if (weight := values.get("weight", 1)) is INVALID else weight,
        usable(values.get("max_in_flight"), None),
        _STATES.get(values.get("state", "up"), State.UP),
        bool(values.get("backup", False)),
        path,
    )


def _drafts(context: Context, entry: Any, path: Path) -> Iterator[Draft]:  # noqa: ANN401 - as read
    values = entry if isinstance(entry, dict) else {}
    addresses = values.get("address", INVALID) if values else entry
    if addresses is INVALID:
        return
    name = usable(values.get("name"), "")
    if len(addresses) > 1 and name and "{n}" not in name:
        message = f"'{name}' would name {len(addresses)} servers: write {{n}} where their number belongs"
        context.error("duplicate-name", message, (*path, "name"), f'such as "{name}{{n}}"')
        name = ""
    for address, number in addresses:
        yield Draft(address, name.replace("{n}", number or "0"), values, path)


def _count(hosts: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for host in hosts:
        counts[host] = counts.get(host, 0) + 1
    return counts


def _name(address: Address, with_port: bool) -> str:
    """Return the host, or host-port, in the letters that a name may have."""
    if address.is_unix:
        path = address.host.removesuffix(".sock").removesuffix(".socket")
        name = re.sub("[^A-Za-z0-9._-]", "-", path).strip("-_.")
        return name if len(name) <= 63 else f"{name[:31]}-{name[-31:]}"
    name = f"{address.host}-{address.port}" if with_port else address.host
    name = name.replace(":", "-").strip("-_.")
    # The names of cluster services may be longer than a name may be; their ends tell them apart least.
    return name if len(name) <= 63 else f"{name[:57]}-{address.port}"
