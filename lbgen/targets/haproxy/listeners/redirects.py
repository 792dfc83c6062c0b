"""Plain HTTP that is sent on to HTTPS, but for ACME's challenges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.language.rules import Rules
from lbgen.targets.haproxy.listeners.binds import plain_binds
from lbgen.targets.haproxy.listeners.frame import address_rules, frame_rules, frontend_settings, upgrade_rules
from lbgen.targets.haproxy.views import Frontend, syntax
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener
    from lbgen.targets.haproxy.assembly import Assembly
    from lbgen.units import Address

ACME = "/.well-known/acme-challenge/"


def acme_choices(listeners: tuple[Listener, ...]) -> Iterator[str]:
    """Yield the way of ACME's HTTP-01 challenges: open to everybody, never redirected."""
    for listener in listeners:
        if listener.acme and listener.acme.pool:
            whose = f" {{ var(txn.lb_listener) -m str {listener.name} }}" if len(listeners) > 1 else ""
            yield f"use_backend {listener.acme.pool} if {{ var(txn.lb_path) -m beg {ACME} }}{whose}"


def redirects(made: Assembly) -> Iterator[Frontend]:
    """Yield a frontend for each address from which requests are sent on."""
    holders: dict[Address, list[Listener]] = {}
    for listener in made.fleet.listeners:
        for address in listener.redirect_from:
            holders.setdefault(address, []).append(listener)
    for number, (address, listeners) in enumerate(holders.items(), 1):
        yield _redirect(made, f"redirect:{number}", address, tuple(listeners))


def _redirect(made: Assembly, name: str, address: Address, listeners: tuple[Listener, ...]) -> Frontend:
    rules = Rules(made, listeners)
    frame_rules(rules)
    for listener in listeners:
        rules.of(listener if len(listeners) > 1 else None)
        port = next((bind.port for bind in listener.binds), 443)
        suffix = "" if port == 443 else f":{port}"
        location = f"https://%[req.fhdr(host),host_only]{suffix}%[pathq]"
        challenge = [f"!{{ var(txn.lb_path) -m beg {ACME} }}"] if listener.acme else []
        if listener.acme and listener.acme.pool:
            address_rules(rules, listener)
            upgrade_rules(rules, listener)
        # 308, so that a POST remains a POST.
        rules.add(f"http-request redirect code 308 location {location}", *challenge)
    return Frontend(
        Syntax(name),
        syntax(*plain_binds(address)),
        frontend_settings(made, listeners),
        syntax(*rules.lines),
        syntax(*acme_choices(listeners)),
    )
