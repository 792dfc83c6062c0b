"""Which listeners share addresses (they are one to the proxy, told apart by host), or lead to a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Listener, Pool
    from lbgen.units import Address

Group = tuple[tuple["Listener", ...], tuple["Address", ...]]


def groups(listeners: tuple[Listener, ...]) -> Iterator[Group]:
    """Yield listeners with the addresses on which just these listen together."""
    holders: dict[Address, tuple[int, ...]] = {}
    for index, listener in enumerate(listeners):
        for bind in listener.binds:
            holders[bind] = (*holders.get(bind, ()), index)
    sharing: dict[tuple[int, ...], list[Address]] = {}
    for bind, indexes in holders.items():
        sharing.setdefault(indexes, []).append(bind)
    for indexes, addresses in sharing.items():
        yield tuple(listeners[index] for index in indexes), tuple(addresses)


def only_over_tls(fleet: Fleet, pool: Pool) -> bool:
    """Tell whether every client of a pool comes over TLS, so that its cookies need never cross in clear."""
    leading = [
        listener for listener in fleet.listeners if any(pool.name in route.pools for route in listener.routes)
    ]
    return bool(leading) and all(listener.tls for listener in leading)
