"""Which listeners share addresses: those are one listener of the proxy, told apart by host."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener
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
