"""The difference between two configurations in words of pools and servers."""

from collections.abc import Iterator
from typing import NamedTuple

from lbgen.deploy.inventory import Inventory, PoolEntry, ServerEntry
from lbgen.deploy.line_words import line_words, parameter_words, section_words
from lbgen.deploy.live import can_add, has_ip


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
    for words in section_words(old.sections, new.sections):
        yield Step("", words, reload=True)


def _count(pool: PoolEntry) -> str:
    number = len(pool.servers)
    return "1 server" if number == 1 else f"{number} servers"


def _pool(name: str, old: PoolEntry, new: PoolEntry, *, socket: bool) -> Iterator[Step]:
    if old.strategy != new.strategy:
        yield Step(name, f"strategy {old.strategy} → {new.strategy}", reload=True)
    for words in line_words(old.settings, new.settings):
        yield Step(name, words, reload=True)
    for server in new.servers:
        if server not in old.servers:
            yield Step(name, f"+ {server}", reload=not (socket and can_add(new, new.servers[server])))
    for server, entry in old.servers.items():
        if server not in new.servers:
            yield Step(name, f"- {server}", reload=not socket)
        else:
            yield from _server(name, server, entry, new.servers[server], socket=socket)
            if entry.rest != new.servers[server].rest and _defaults(old) == _defaults(new):
                words = parameter_words(entry.rest, new.servers[server].rest)
                yield Step(name, f"{server} {words}", reload=True)


def _server(pool: str, name: str, old: ServerEntry, new: ServerEntry, *, socket: bool) -> Iterator[Step]:
    for what, before, after in (
        ("address", old.address, new.address),
        ("state", old.state, new.state),
        ("max_in_flight", old.cap or "none", new.cap or "none"),
    ):
        if before != after:
            # The socket takes no names.
            able = socket and (what != "address" or has_ip(new))
            yield Step(pool, f"{name} {what} {before} → {after}", reload=not able)
    if old.weight != new.weight and old.state == new.state:
        # An agent's percentages are of the weight that the process began with.
        able = socket and "agent-check" not in new.rest
        yield Step(pool, f"{name} weight {old.weight} → {new.weight}", reload=not able)
    if old.backup != new.backup:
        yield Step(pool, f"{name} {'becomes' if new.backup else 'is no longer'} a backup", reload=True)


def _defaults(pool: PoolEntry) -> list[str]:
    """Return what holds for all servers: its change is told once."""
    return [line for line in pool.settings if line.startswith("default-server ")]
