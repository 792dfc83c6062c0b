"""Who may call: keys of clients, an external service, networks that are let through.

Keys stand in regular expressions: NGINX's string maps ignore case (seen on 1.22.1: `bearer SK-ABC` passed
for `Bearer sk-abc`). They are kept in a file of their own that only its owner may read.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from lbgen.model import Secret
from lbgen.targets.nginx.errors import PREFIX
from lbgen.targets.nginx.guards.access import within
from lbgen.targets.nginx.language.quoting import escape_regex, header_name, quote, regex_word
from lbgen.targets.nginx.language.words import variable
from lbgen.targets.nginx.routes.conditions import header_variable, upgrade
from lbgen.targets.nginx.views import Check, Location, Map, Pair
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener, Pool
    from lbgen.targets.nginx.assembly import Assembly


def client_variable(made: Assembly, listener: Listener) -> Syntax:
    """Return the variable that names the client whose key the request has; empty: none known."""
    if not listener.auth.clients:
        return Syntax('""')
    key = _key_variable(made, listener.auth.header, listener.auth.websocket_protocol)
    name = Syntax(f"$lb_client_of{key.removeprefix('$lb_key')}")
    if all(known.variable != name for known in made.secret_maps):
        entries = [Pair(Syntax("default"), Syntax('""')), *_key_entries(made)]
        made.secret_maps.append(Map(key, name, tuple(entries)))
    return name


def _key_variable(made: Assembly, header: str, protocol: str | None) -> Syntax:
    """Return the variable with the key that a request brought, from the header or from `x-api-key`."""
    if header.lower() == "authorization":
        bearer = regex_word(r"~*^bearer (?<lb_bearer_key>.+)$")
        made.map("$http_authorization", "$lb_bearer", [("default", '""'), (bearer, "$lb_bearer_key")])
        given = "$lb_bearer"
    else:
        given = header_variable(header)
    name = f"$lb_key_{variable(Syntax(header.lower()))}"
    if protocol is None:
        return made.map(given, name, [('""', "$http_x_api_key"), ("default", given)])
    last = made.map(
        "$http_x_api_key",
        f"{name}_or",
        [('""', _key_of_protocol(made, protocol)), ("default", "$http_x_api_key")],
    )
    return made.map(given, f"{name}_{_mark(protocol)}", [('""', last), ("default", given)])


def _key_of_protocol(made: Assembly, protocol: str) -> Syntax:
    """Return the variable with the key that the subprotocols of a WebSocket's handshake hold."""
    name = _mark(protocol)
    capture = f"lb_of_{name}"
    pattern = regex_word(rf"~(?:^|, *){protocol}[.](?<{capture}>[^, ]+) *(?:,|$)")
    said = made.map(_PROTOCOLS, f"$lb_said_{name}", [("default", '""'), (pattern, f"${capture}")])
    return made.map(upgrade(made), f"$lb_key_of_{name}", [("default", '""'), ("1", said)])


def _mark(protocol: str) -> str:
    """Return what stands for a name in those of captures, of which PCRE takes 32 characters (10.42)."""
    return f"{zlib.crc32(protocol.encode()):08x}"


def _other_protocols(made: Assembly, protocol: str) -> Syntax:
    """Return the variable with the subprotocols that a server gets: all but the one with the key."""
    name = _mark(protocol)
    before, after, rest = (f"lb_{part}_{name}" for part in ("before", "after", "rest"))
    element = f"{protocol}[.][^, ]+"
    entries = [
        ("default", _PROTOCOLS),
        (regex_word(rf"~^{element} *(?:, *(?<{rest}>.*))?$"), f"${rest}"),
        (regex_word(rf"~^(?<{before}>.*?) *, *{element}(?<{after}>.*)$"), f'"${before}${after}"'),
    ]
    return made.map(_PROTOCOLS, f"$lb_without_{name}", entries)


_PROTOCOLS = "$http_sec_websocket_protocol"


def _key_entries(made: Assembly) -> Iterator[Pair]:
    for client in made.fleet.clients:
        for key in client.keys:
            pattern = regex_word(f"~^{escape_regex(made.resolve(key))}$")
            yield Pair(pattern, quote(client.name))


def checks(made: Assembly, listener: Listener, client: Syntax) -> Iterator[Check]:
    """Yield the check for a known key: trusted networks pass without one; `cors` has answered preflights."""
    auth = listener.auth
    if auth.websocket_protocol:
        twice = regex_word(f"~{auth.websocket_protocol}[.].*{auth.websocket_protocol}[.]")
        yield Check(made.flag(_PROTOCOLS, [("default", "0"), (twice, "1")]), 400)
    if not auth.required or not auth.clients:
        return
    name = variable(made.listeners[listener.name])
    known = client
    if {client.name for client in made.fleet.clients} - set(auth.clients):
        entries = [(regex_word(f"~^{escape_regex(allowed)}$"), "1") for allowed in auth.clients]
        known = made.map(client, f"$lb_welcome_{name}", [("default", '""'), *entries])
    passes = [known, _exempt(made, listener) or ""]
    denied = made.map(f'"{"".join(passes)}"', f"$lb_denied_{name}", [('""', "1"), ("default", "0")])
    yield Check(denied, 401)


def preflight(made: Assembly) -> Syntax:
    """Return the variable that is 1 for a browser's CORS preflight, which never carries a key."""
    source = '"$request_method:$http_origin:$http_access_control_request_method"'
    return made.map(source, "$lb_preflight", [("default", '""'), (regex_word("~^OPTIONS:[^:].*:[A-Z]"), "1")])


def pool_check(made: Assembly, pool: Pool) -> Iterator[Check]:
    """Yield the check that this client may use this pool."""
    barred = [client for client in made.fleet.clients if client.pools and pool.name not in client.pools]
    if not barred:
        return
    name = variable(made.upstreams[pool.name])
    entries = [(regex_word(f"~^{escape_regex(client.name)}$"), "1") for client in barred]
    yield Check(made.map("$lb_client", f"$lb_barred_{name}", [("default", "0"), *entries]), 403)


def request_headers(made: Assembly, listener: Listener) -> Iterator[tuple[str, str]]:
    """Yield what the server gets in place of the client's key."""
    auth = listener.auth
    if auth.websocket_protocol:
        yield "Sec-WebSocket-Protocol", _other_protocols(made, auth.websocket_protocol)
    if not auth.required or auth.upstream == "pass":
        return
    names = dict.fromkeys(["Authorization", "X-Api-Key", auth.header])
    for name in names:
        yield name, '""'
    if isinstance(auth.upstream, Secret):
        text = f"Bearer {made.resolve(auth.upstream)}"
        yield "Authorization", made.secret_literals.word(text, always=True)


def external_access(made: Assembly, listener: Listener) -> Iterator[Syntax]:
    """Yield the directives that ask an external service."""
    if listener.auth.external is None:
        return
    yield Syntax(f"auth_request {PREFIX}auth/{made.listeners[listener.name]}")


def external_location(made: Assembly, listener: Listener) -> Iterator[Location]:
    """Yield the internal location that asks the external service; it gets no body."""
    external = listener.auth.external
    if external is None:
        return
    given = [(name, header_variable(name)) for name in external.forward]
    about = [
        ("X-Original-Method", "$request_method"),
        ("X-Original-URI", "$request_uri"),
        ("X-Real-IP", "$remote_addr"),
        ("X-Request-Id", "$lb_request_id"),
        ("Content-Length", '""'),
        ("Connection", '""'),
    ]
    lines = ["proxy_method GET", "proxy_pass_request_body off", "proxy_pass_request_headers off"]
    lines += [f"proxy_set_header {header_name(name)} {value}" for name, value in (*given, *about)]
    lines += ["proxy_connect_timeout 3s", "proxy_read_timeout 10s", f"proxy_pass {quote(external.url)}"]
    name = made.listeners[listener.name]
    exempt = _exempt(made, listener)
    yield Location(
        Syntax(f"= {PREFIX}auth/{name}"),
        internal=True,
        checks=(Check(exempt, 204),) if exempt else (),
        access=tuple(map(Syntax, lines)),
    )


def _exempt(made: Assembly, listener: Listener) -> Syntax | None:
    """Return the variable that is 1 for networks that need no key."""
    if not listener.auth.except_from:
        return None
    return within(made, listener, listener.auth.except_from, "exempt")
