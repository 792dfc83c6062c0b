"""In which order waiting requests are served: classes first, then the expected cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.language.quoting import quote

if TYPE_CHECKING:
    from lbgen.model import Listener
    from lbgen.targets.haproxy.language.rules import Rules


def priority_rules(rules: Rules, listener: Listener, taken: dict[int, str]) -> None:
    """Add classes of clients, then those of routes, which win; `taken`: a route's order -> its condition."""
    for client in rules.made.fleet.clients:
        if client.priority and client.name in listener.auth.clients:
            whose = f"{{ var(txn.lb_client) -m str -- {quote(client.name)} }}"
            rules.add(f"http-request set-priority-class int({client.priority})", whose)
    for order, route in enumerate(listener.routes):
        if route.priority is not None:
            rules.add(f"http-request set-priority-class int({route.priority})", taken[order])
        pools = [rules.made.fleet.pool(name) for name in route.pools]
        if any(pool.queue.order == "shortest_first" for pool in pools):
            rules.add("http-request set-priority-offset var(txn.lb_cost)", taken[order])
