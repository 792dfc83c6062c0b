"""A whole NGINX configuration, or its fragments, as the draft of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.imports.draft import Said
from lbgen.imports.nginx.itself import settle
from lbgen.imports.nginx.listeners.servers import read_servers
from lbgen.imports.nginx.metrics import read_metrics
from lbgen.imports.nginx.pools.upstreams import read_upstreams
from lbgen.imports.nginx.program import read_program
from lbgen.imports.nginx.reading import Reading, Use, everything_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.imports.draft import Draft
    from lbgen.imports.ledger import Ledger
    from lbgen.readers.nginx import Directive, Nginx

_CONTAINERS = {"http", "events", ""}
_WHOLE = {"types", "stream", "mail"}
"""Blocks that are one directive, whatever is in them."""


def read_nginx(configurations: Sequence[Nginx], draft: Draft, ledger: Ledger) -> None:
    """Add what NGINX configurations say to a draft, and note what became of each directive."""
    reading = Reading(configurations, draft, ledger)
    counted = list(_counted(configurations))
    entries = {
        entry.location: table for table in counted if table.name == "map" for entry in table.block or ()
    }
    for one in counted:
        ledger.expect(one.location, _shown(one, entries.get(one.location)))
    read_upstreams(reading)
    if reading.generated:
        _rendered(reading, counted)
        return
    read_metrics(reading)
    read_servers(reading)
    for pool, uses in ((pool, uses) for pool, uses in reading.uses.items() if uses):
        _merge(reading, pool, uses)
    for tree in draft.listeners.values():
        if tree.get("routes") and not isinstance(tree["routes"][0], Said):
            _finish_routes(tree)
    read_program(reading)
    for block in counted:
        if block.block is not None and not ledger.is_open(block.location) and ledger.is_left(block.location):
            _leave_inside(reading, block)
    for one in counted:
        settle(reading, one)


def _rendered(reading: Reading, counted: Sequence[Directive]) -> None:
    """Note of files that lbgen rendered that the fleet beside them says the rest."""
    reading.draft.targets.setdefault("nginx", {})
    reading.carry(one for one in counted if reading.ledger.is_open(one.location))


def _leave_inside(reading: Reading, block: Directive) -> None:
    """Note that what stands in a block that was left is left with it."""
    for one in everything_in(block):
        if reading.ledger.is_open(one.location):
            reading.ledger.left(one.location, f"part of '{block.name}' in line {block.location.line}")


def _counted(configurations: Sequence[Nginx]) -> Iterator[Directive]:
    waiting = [one for configuration in configurations for one in configuration.root.block or ()]
    while waiting:
        one = waiting.pop()
        if one.name not in _CONTAINERS:
            yield one
        if one.name not in _WHOLE and "_by_lua" not in one.name:
            waiting += one.block or ()


def _shown(one: Directive, table: Directive | None) -> list[str]:
    """Return the words of a directive that a list may show: in maps and conditions there may be keys."""
    if one.name == "if":
        return [one.name, *one.args[:2], "…)"]
    if table is not None:
        return ["an entry of map", *table.args]
    return [one.name, *(arg for arg in one.args if arg)]


def _merge(reading: Reading, pool: str, uses: Sequence[Use]) -> None:
    """Give a pool what all its locations say; timeouts that differ stay at their routes."""
    tree = reading.draft.pools[pool]
    shared: dict[str, Any] = {}
    for key in ("connect", "first_byte", "idle", "send"):
        said = [use.timeouts.get(key) for use in uses]
        first = said[0]
        if first is not None and all(one is not None and one.value == first.value for one in said):
            shared[key] = first
            continue
        for use, one in zip(uses, said, strict=True):
            if one is not None:
                use.route.setdefault("timeouts", {})[key] = one.value
    if shared:
        place = next(iter(shared.values())).place
        tree["timeouts"] = Said({key: one.value for key, one in shared.items()}, place)
    for key in dict.fromkeys(key for use in uses for key in use.values):
        values = [use.values[key] for use in uses if key in use.values]
        tree.setdefault(key, values[0])
        for other in values[1:]:
            if other.value != tree[key].value and other.place is not None:
                reading.ledger.left(other.place, f"the pool '{pool}' has one '{key}', from another location")


def _finish_routes(tree: dict[str, Any]) -> None:
    """Turn routes into what a file says; a single one that takes everything need not be there."""
    routes = tree.pop("routes")
    for route, _ in routes:
        if "split" in route:
            del route["pool"]  # the first of them
    tree["routes"] = [
        Said(
            {key: value for key, value in route.items() if value != {}}, block.location, tuple(block.comments)
        )
        for route, block in routes
    ]
