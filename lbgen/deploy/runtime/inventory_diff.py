"""The difference between two configuration files, and what of it a running HAProxy takes without a reload."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from lbgen.deploy.planning.change import FILES, RELOAD, RUNTIME, Change
from lbgen.deploy.runtime.live import can_add, has_ip

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.targets.inventory import Inventory, PoolEntry, ServerEntry


class Lines(NamedTuple):
    """How many lines differ."""

    removed: int
    added: int


def file_changes(old: Inventory, new: Inventory, *, socket: bool) -> Iterator[Change]:
    """Yield what changes by pools and servers, and of everything else how many lines do.

    `socket`: a runtime socket takes what it can.
    """
    for name, pool in new.pools.items():
        if name not in old.pools:
            yield Change("added", after=list(pool.servers), pool=name)
        else:
            yield from _pool(name, old.pools[name], pool, socket=socket)
    for name, pool in old.pools.items():
        if name not in new.pools:
            yield Change("removed", before=list(pool.servers), pool=name)
    if old.sections != new.sections:
        before, after = ([line for lines in file.sections.values() for line in lines] for file in (old, new))
        yield _lines("sections", before, after)


def _pool(name: str, old: PoolEntry, new: PoolEntry, *, socket: bool) -> Iterator[Change]:
    if old.strategy != new.strategy:
        yield Change("changed", "strategy", old.strategy, new.strategy, name)
    if old.settings != new.settings:
        yield _lines("settings", old.settings, new.settings)._replace(pool=name)
    for server, entry in new.servers.items():
        if server not in old.servers:
            effect = _effect(able=socket and can_add(new, entry))
            yield Change("added", None, None, entry.address, name, server, effect=effect)
    defaults = _defaults(old) == _defaults(new)
    for server, entry in old.servers.items():
        if server not in new.servers:
            yield Change("removed", None, entry.address, None, name, server, effect=_effect(able=socket))
            continue
        after = new.servers[server]
        for change in _server(entry, after, socket=socket, defaults=defaults):
            yield change._replace(pool=name, server=server)


def _server(old: ServerEntry, new: ServerEntry, *, socket: bool, defaults: bool) -> Iterator[Change]:
    ways = (
        # The socket takes no names.
        ("address", old.address, new.address, has_ip(new)),
        ("state", old.state, new.state, True),
        ("max_in_flight", old.cap, new.cap, True),
        # An agent's percentages are of the weight that the process began with. A drain is weight 0.
        (
            "weight",
            old.weight,
            new.weight if old.state == new.state else old.weight,
            "agent-check" not in new.rest,
        ),
        ("backup", old.backup, new.backup, False),
        # What holds for all servers is told once.
        ("parameters", _words(old.rest), _words(new.rest if defaults else old.rest), False),
    )
    for attribute, before, after, able in ways:
        if before != after:
            yield Change("changed", attribute, before, after, effect=_effect(able=socket and able))


def _words(words: Sequence[str]) -> str | None:
    return " ".join(words) or None


def _effect(*, able: bool) -> str:
    return RUNTIME if able else RELOAD


def _lines(what: str, old: Sequence[str], new: Sequence[str]) -> Change:
    return Change("changed", f"{FILES}{what}", None, Lines(*counted(old, new)))


def counted(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many lines are only in the old and only in the new; 1 and 1 for another order."""
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    return (gone.total(), come.total()) if gone or come else (1, 1)


def _defaults(pool: PoolEntry) -> list[str]:
    return [line for line in pool.settings if line.startswith("default-server ")]
