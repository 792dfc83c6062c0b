"""Routes: which of them a request takes, what that changes, and to which backend it leads.

The number of the route stands in `txn.lb_route`: the first that fits, from the most specific on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.backends import numbered_routes
from lbgen.targets.haproxy.words import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener, Route
    from lbgen.targets.haproxy.assembly import Assembly
    from lbgen.targets.haproxy.rules import Rules


def route_rules(rules: Rules, listener: Listener) -> None:
    """Add the choice of a route, what the routes do, and the answer where none fits."""
    numbers = {id(route): number for number, route in numbered_routes(rules.made)}
    open_end = True
    for route in listener.routes:
        conditions = _conditions(rules, route)
        open_end = open_end and bool(conditions)
        rules.add(f"http-request set-var(txn.lb_route) int({numbers[id(route)]})", _UNDECIDED, *conditions)
    if open_end:
        rules.add(refuse("not_found"), _UNDECIDED)


_UNDECIDED = "!{ var(txn.lb_route) -m found }"


def _conditions(rules: Rules, route: Route) -> tuple[str, ...]:
    del rules, route
    return ()


def choices(made: Assembly, listeners: tuple[Listener, ...]) -> Iterator[str]:
    """Yield `use_backend` for each route that leads to a pool."""
    own = {id(route) for listener in listeners for route in listener.routes}
    for number, route in numbered_routes(made):
        if id(route) in own and route.pool:
            yield f"use_backend {route.pool} if {{ var(txn.lb_route) -m int {number} }}"
