"""Listeners as `frontend` sections: those that share an address are one, told apart by host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.listeners import groups
from lbgen.targets.haproxy.guards.admission import address_limit_rules, limit_rules
from lbgen.targets.haproxy.guards.auth import auth_rules, upstream_rules
from lbgen.targets.haproxy.guards.cors import cors_rules, preflight_rules
from lbgen.targets.haproxy.language.rules import Rules
from lbgen.targets.haproxy.language.words import frontend_name, refuse
from lbgen.targets.haproxy.listeners.binds import binds, connection_rules
from lbgen.targets.haproxy.listeners.frame import (
    access_rules,
    address_rules,
    frame_rules,
    frontend_settings,
    late_rules,
    upgrade_rules,
)
from lbgen.targets.haproxy.listeners.redirects import ACME, acme_choices
from lbgen.targets.haproxy.listeners.status import any_host_rules, status_rules
from lbgen.targets.haproxy.routes.responses import response_rules
from lbgen.targets.haproxy.routes.routing import choices, route_rules, split_rules
from lbgen.targets.haproxy.views import Frontend, syntax
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from lbgen.model import Listener
    from lbgen.targets.haproxy.assembly import Assembly
    from lbgen.units import Address


def frontends(made: Assembly) -> tuple[Frontend, ...]:
    """Return the frontends of all listeners."""
    return tuple(
        _frontend(made, listeners, addresses) for listeners, addresses in groups(made.fleet.listeners)
    )


def _frontend(made: Assembly, listeners: tuple[Listener, ...], addresses: tuple[Address, ...]) -> Frontend:
    rules = Rules(made, listeners)
    _proxy_protocol(rules, listeners)
    frame_rules(rules)
    connection_rules(rules)
    any_host_rules(rules)
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
        frontend_settings(made, listeners),
        syntax(*rules.lines),
        syntax(*acme_choices(listeners), *choices(made, listeners)),
        raw=syntax(*made.settings.raw.get("frontend", ())),
    )


def _proxy_protocol(rules: Rules, listeners: tuple[Listener, ...]) -> None:
    for listener in listeners:
        if listener.accept_proxy and listener.trusted_proxies:
            trusted = rules.acl(("src", listener.trusted_proxies))
            rules.add("tcp-request connection expect-proxy layer4", trusted)
            return


def _listener_rules(rules: Rules, listener: Listener) -> None:
    address_rules(rules, listener)
    late_rules(rules, listener)
    upgrade_rules(rules, listener)
    if listener.acme and listener.acme.pool:
        # Open to everybody: no rule below is asked.
        rules.add("http-request allow", f"{{ var(txn.lb_path) -m beg {ACME} }}")
    cors_rules(rules, listener)
    access_rules(rules, listener)
    preflight_rules(rules, listener)
    address_limit_rules(rules, listener)
    auth_rules(rules, listener)
    limit_rules(rules, listener)
    # Only requests that tell their length can be refused before they have come.
    # A length with more digits may be more than the number can hold: 1 TiB counted as 0 on 2.6.
    digits = f"{{ req.fhdr(content-length) -m len gt {len(str(listener.max_body))} }}"
    rules.either(refuse("too_large"), f"{{ req.hdr_val(content-length) gt {listener.max_body} }}", digits)
    split_rules(rules, listener)
    route_rules(rules, listener)
    upstream_rules(rules, listener)
    response_rules(rules, listener)
