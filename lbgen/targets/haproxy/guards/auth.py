"""Who may call: clients by the sha256 of their keys, in a map file; networks that are let through."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from lbgen.model import Secret
from lbgen.targets.haproxy.language.quoting import quote
from lbgen.targets.haproxy.language.words import WEBSOCKET, header_sample, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener, Pool
    from lbgen.targets.haproxy.assembly import Assembly
    from lbgen.targets.haproxy.language.rules import Rules

CLIENTS_FILE = "secrets/clients.map"


def auth_rules(rules: Rules, listener: Listener) -> None:
    """Add the rules that name the client and refuse a request without a known key."""
    auth = listener.auth
    if not auth.clients:
        return
    if auth.header.lower() == "authorization":
        # Not http_auth_bearer, which found no key here on 2.6.12.
        bearer = "{ req.fhdr(Authorization) -m beg -i 'bearer ' }"
        rules.add("http-request set-var(txn.lb_key) req.fhdr(Authorization),bytes(7)", bearer)
    else:
        rules.add(f"http-request set-var(txn.lb_key) {header_sample(auth.header)}")
    rules.add("http-request set-var(txn.lb_key) req.fhdr(X-Api-Key)", "!{ var(txn.lb_key) -m len gt 0 }")
    if auth.websocket_protocol:
        _protocol_rules(rules, auth.websocket_protocol)
    # The map holds digests, and compares them exactly.
    file = rules.made.file(CLIENTS_FILE)
    rules.add(f"http-request set-var(txn.lb_client) var(txn.lb_key),sha2(256),hex,map_str({file})")
    rules.add("http-request unset-var(txn.lb_key)")
    if not auth.required:
        return
    known = "{ var(txn.lb_client) -m found }"
    if {client.name for client in rules.made.fleet.clients} - set(auth.clients):
        known = rules.acl(("var(txn.lb_client) -m str", auth.clients))
    passes = [known]
    if auth.except_from:
        passes.append(rules.acl(("src", auth.except_from)))
    rules.add(refuse("unauthorized"), *(f"!{condition}" for condition in passes))


def _protocol_rules(rules: Rules, name: str) -> None:
    """Read the key of a WebSocket from its subprotocols, and take it off."""
    header = "req.fhdr(Sec-WebSocket-Protocol)"
    element = f"{name}[.][^, ]+"
    there = f"{{ {header} -m reg '(?:^|, *){element} *(?:,|$)' }}"
    twice = f"{{ {header} -m reg '{name}[.].*{name}[.]' }}"
    rules.add(refuse("bad_request"), twice)
    rules.add(refuse("bad_request"), "{ req.fhdr_cnt(Sec-WebSocket-Protocol) gt 1 }")
    missing = "!{ var(txn.lb_key) -m len gt 0 }"
    key = f'\'{header},regsub("^(.*, *)?{name}[.]([^, ]+).*$","\\2")\''
    rules.add(f"http-request set-var(txn.lb_key) {key}", missing, there, WEBSOCKET)
    for pattern, rest in ((f"^{element} *(?:, *(.*))?$", "\\1"), (f"^(.*?) *, *{element}(.*)$", "\\1\\2")):
        rules.add(f"http-request replace-header Sec-WebSocket-Protocol '{pattern}' '{rest}'")
    empty = f"{{ {header} -m len 0 }}"
    rules.add("http-request del-header Sec-WebSocket-Protocol", empty)


def upstream_rules(rules: Rules, listener: Listener) -> None:
    """Add what the server sees in place of the client's key."""
    auth = listener.auth
    if not auth.required or auth.upstream == "pass":
        return
    for name in {
        "authorization": "Authorization",
        "x-api-key": "X-Api-Key",
        auth.header.lower(): auth.header,
    }.values():
        rules.add(f"http-request del-header {quote(name)}")
    if isinstance(auth.upstream, Secret):
        rules.add(f"http-request set-header Authorization Bearer\\ {rules.made.word(auth.upstream)}")


def barred_rule(made: Assembly, pool: Pool) -> Iterator[str]:
    """Yield the backend's rule against clients that may not use it."""
    barred = [client.name for client in made.fleet.clients if client.pools and pool.name not in client.pools]
    for start in range(0, len(barred), 40):
        names = " ".join(map(quote, barred[start : start + 40]))
        yield f"{refuse('forbidden')} if {{ var(txn.lb_client) -m str -- {names} }}"


def clients_text(made: Assembly) -> str:
    """Return the map of digests to names; empty when no listener asks for keys."""
    if not any(listener.auth.clients for listener in made.fleet.listeners):
        return ""
    lines = []
    for client in made.fleet.clients:
        for key in client.keys:
            # Upper case, as the converter `hex` writes it.
            digest = hashlib.sha256(made.resolve(key).encode()).hexdigest().upper()
            lines.append(f"{digest} {client.name}\n")
    return "".join(lines)
