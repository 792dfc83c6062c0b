"""Listeners as `frontend` sections: those that share an address are one, told apart by host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.frame import binds, client_timeout, frame_rules, late_rules
from lbgen.targets.haproxy.logs import access_log, log_target
from lbgen.targets.haproxy.routing import choices, route_rules
from lbgen.targets.haproxy.rules import Rules
from lbgen.targets.haproxy.status import status_rules
from lbgen.targets.haproxy.views import Frontend, syntax
from lbgen.targets.haproxy.words import duration, frontend_name, refuse
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener
    from lbgen.targets.haproxy.assembly import Assembly
    from lbgen.units import Address

Group = tuple[tuple["Listener", ...], tuple["Address", ...]]


def frontends(made: Assembly) -> tuple[Frontend, ...]:
    """Return the frontends of all listeners."""
    return tuple(
        _frontend(made, listeners, addresses) for listeners, addresses in groups(made.fleet.listeners)
    )


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


def _frontend(made: Assembly, listeners: tuple[Listener, ...], addresses: tuple[Address, ...]) -> Frontend:
    rules = Rules(made, listeners)
    frame_rules(rules)
    for listener in listeners:
        rules.of(listener)
        status_rules(rules, listener)
    rules.of(None)
    if all(listener.hosts for listener in listeners):
        rules.add(refuse("not_found"), "!{ var(txn.lb_listener) -m found }")
    for listener in listeners:
        rules.of(listener)
        _listener_rules(rules, listener)
    return Frontend(
        Syntax(frontend_name(":".join(listener.name for listener in listeners))),
        syntax(*(bind for address in addresses for bind in binds(made, listeners, address))),
        syntax(
            log_target(made.fleet.logs),
            access_log(made.fleet.logs),
            f"timeout client {duration(client_timeout(made, listeners))}",
        ),
        syntax(*rules.lines),
        syntax(*choices(made, listeners)),
        raw=syntax(*made.settings.raw.get("frontend", ())),
    )


def _listener_rules(rules: Rules, listener: Listener) -> None:
    # Only requests that tell their length can be refused before they have come.
    too_large = f"{{ req.hdr_val(content-length) gt {listener.max_body} }}"
    rules.add(refuse("too_large"), too_large)
    route_rules(rules, listener)
    late_rules(rules, listener)
