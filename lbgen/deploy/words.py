"""The difference between two configurations in words of pools and servers."""

from collections.abc import Iterator
from typing import NamedTuple

from lbgen.deploy.inventory import Inventory, PoolEntry, ServerEntry


class Step(NamedTuple):
    """One change, in words."""

    pool: str
    """Empty: outside the pools."""
    words: str
    reload: bool
    """False: HAProxy's runtime socket can do it, and no stream is touched."""


def steps(old: Inventory, new: Inventory, *, socket: bool) -> Iterator[Step]:
    """Yield what changes, pools in the new file's order; `socket`: the target has a runtime socket."""
    for name, pool in new.pools.items():
        if name not in old.pools:
            yield Step(name, f"new pool with {_count(pool)}", reload=True)
        else:
            yield from _pool(name, old.pools[name], pool, socket=socket)
    for name, pool in old.pools.items():
        if name not in new.pools:
            yield Step(name, f"pool removed, with {_count(pool)}", reload=True)
    if old.rest != new.rest:
        yield Step("", f"settings outside the pools ({_lines_changed(old.rest, new.rest)})", reload=True)


def _count(pool: PoolEntry) -> str:
    number = len(pool.servers)
    return "1 server" if number == 1 else f"{number} servers"


def _pool(name: str, old: PoolEntry, new: PoolEntry, *, socket: bool) -> Iterator[Step]:
    if old.strategy != new.strategy:
        yield Step(name, f"strategy {old.strategy} → {new.strategy}", reload=True)
    if old.settings != new.settings:
        yield Step(name, f"settings ({_lines_changed(old.settings, new.settings)})", reload=True)
    for server in new.servers:
        if server not in old.servers:
            yield Step(name, f"+ {server}", reload=True)
    for server, entry in old.servers.items():
        if server not in new.servers:
            yield Step(name, f"- {server}", reload=True)
        else:
            yield from _server(name, server, entry, new.servers[server], socket=socket)


def _server(pool: str, name: str, old: ServerEntry, new: ServerEntry, *, socket: bool) -> Iterator[Step]:
    for what, before, after in (
        ("address", old.address, new.address),
        ("state", old.state, new.state),
        ("max_in_flight", old.cap or "none", new.cap or "none"),
    ):
        if before != after:
            yield Step(pool, f"{name} {what} {before} → {after}", reload=not socket)
    if old.weight != new.weight and old.state == new.state:
        yield Step(pool, f"{name} weight {old.weight} → {new.weight}", not socket)
    if old.backup != new.backup:
        yield Step(pool, f"{name} {'becomes' if new.backup else 'is no longer'} a backup", reload=True)
    if old.rest != new.rest:
        yield Step(pool, f"{name} {' '.join(old.rest) or '-'} → {' '.join(new.rest) or '-'}", reload=True)


def _lines_changed(old: tuple[str, ...], new: tuple[str, ...]) -> str:
    removed, added = set(old) - set(new), set(new) - set(old)
    if not removed and not added:
        return "the same lines in another order"
    return f"{len(added)} lines added, {len(removed)} removed"
