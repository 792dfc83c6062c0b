"""What a ``server`` says of bodies, headers, TLS, proxies in front and browsers: values of a listener."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.fleet.schema.listener import LISTENER
from lbgen.imports.cors import PREFIX, cors
from lbgen.imports.draft import Said
from lbgen.imports.values import duration, network, nginx_time, size
from lbgen.units import parse_size

if TYPE_CHECKING:
    from lbgen.imports.draft import Tree
    from lbgen.imports.nginx.listeners.servers import Door
    from lbgen.imports.nginx.reading import Reading
    from lbgen.readers.nginx import Directive, Level

_NEWEST = {"TLSv1.3"}
_USUAL = {"TLSv1.2", "TLSv1.3"}
_TIMES = {"keepalive_timeout": "keepalive", "client_header_timeout": "header", "client_body_timeout": "body"}
KEYS = frozenset(field.name for field in LISTENER.fields)


def tls(reading: Reading, level: Level) -> Tree:
    """Return TLS towards the clients; nothing where no certificate is named."""
    certificates, keys = level.all("ssl_certificate"), level.all("ssl_certificate_key")
    if not certificates or not keys or any("$" in one.value for one in (*certificates, *keys)):
        reading.left([*certificates, *keys], "there is no key for certificates with variables")
        reading.ledger.left(level.block.location, "it listens with TLS, but no certificate was found")
        return {}
    reading.carry((certificates[0], keys[0]))
    reading.left([*certificates[1:], *keys[1:]], "a listener has one certificate here")
    values: dict[str, Any] = {"certificate": certificates[0].value, "key": keys[0].value}
    protocols = level.first("ssl_protocols")
    if protocols is not None:
        said = set(protocols.args)
        values |= {"profile": "modern"} if said == _NEWEST else {}
        if said in (_NEWEST, _USUAL):
            reading.ledger.carried(protocols.location)
        else:
            reading.ledger.better(protocols.location, "the profile 'intermediate' has TLS 1.2 and 1.3")
    values |= _client_certificates(reading, level)
    for line in level.all("add_header"):
        if line.value.lower() == "strict-transport-security":
            values["hsts"] = True
            reading.ledger.carried(line.location)
    tree: Tree = {"tls": Said(values, certificates[0].location)}
    switch = level.first("http2")
    if switch is not None:
        reading.ledger.carried(switch.location)
        if switch.value == "off":
            tree["http2"] = Said(value=False, place=switch.location)
    return tree


def _client_certificates(reading: Reading, level: Level) -> dict[str, Any]:
    verify = level.first("ssl_verify_client")
    ca = level.first("ssl_client_certificate") or level.first("ssl_trusted_certificate")
    if verify is None or verify.value == "off":
        return {}
    if verify.value == "on" and ca is not None:
        reading.carry((verify, ca))
        return {"client_ca": ca.value}
    if verify.value == "on":
        reading.ledger.left(verify.location, "there is no 'ssl_client_certificate'")
        return {}
    reading.ledger.left(verify.location, "'client_ca' requires a certificate from every client, unlike this")
    return {}


def listener_values(reading: Reading, level: Level, door: Door) -> Tree:
    """Return bodies, headers, proxies in front, browsers and timers of a server."""
    tree: Tree = {}
    _bodies(reading, level, door, tree)
    line = level.first("large_client_header_buffers")
    text = size(line.args[1]) if line is not None and len(line.args) == 2 else None
    if line is not None and text is not None:
        reading.ledger.carried(line.location)
        tree["header_size"] = Said(text, line.location)
    _proxies(reading, level, tree)
    _added(reading, level, door, tree)
    _timers(reading, level, tree)
    _hoist(door, tree)
    return tree


def _bodies(reading: Reading, level: Level, door: Door, tree: Tree) -> None:
    levels = [below for below, route in door.routes if "pool" in route]
    lines = {line for one in (levels or [level]) if (line := one.first("client_max_body_size")) is not None}
    bytes_of: dict[Directive, int] = {}
    for line in lines:
        text = size(line.value)
        reading.ledger.carried(line.location)
        if text is None or not parse_size(text):
            reading.ledger.left(line.location, "bodies cannot be unlimited: max_body is 64MiB by default")
        else:
            bytes_of[line] = parse_size(text)
    if not bytes_of:
        return
    largest = max(bytes_of, key=lambda line: (bytes_of[line], line.location))
    tree["max_body"] = Said(size(largest.value), largest.location)
    for line, amount in bytes_of.items():
        if amount != bytes_of[largest]:
            reading.ledger.differs(line.location, "a listener has one max_body: the largest of its locations")


def _proxies(reading: Reading, level: Level, tree: Tree) -> None:
    networks = [line for line in level.all("set_real_ip_from") if line.value != "unix:"]
    header = level.first("real_ip_header")
    recursive = level.first("real_ip_recursive")
    lines = [one for one in (*networks, header, recursive) if one is not None]
    if not networks:
        return
    reading.carry(lines)
    if header is not None and header.value.lower() not in {"x-forwarded-for", "proxy_protocol"}:
        reading.left([header], "the client's address is taken from X-Forwarded-For, or the PROXY protocol")
        return
    tree["trusted_proxies"] = Said([network(line.value) for line in networks], networks[0].location)


def _added(reading: Reading, level: Level, door: Door, tree: Tree) -> None:
    """Read what is added to answers for browsers, and for a proxy in front."""
    lines = {line for one in (level, *(below for below, _ in door.routes)) for line in one.all("add_header")}
    browsers: dict[str, Directive] = {}
    for line in sorted(lines, key=lambda one: one.location):
        name, value = line.value.lower(), line.args[1] if len(line.args) > 1 else ""
        if name == "x-accel-buffering" and value == "no":
            tree["behind_proxy"] = Said(value=True, place=line.location)
            reading.ledger.carried(line.location)
        elif name.startswith(PREFIX):
            browsers[name] = line
    values = cors({name: line.args[1] for name, line in browsers.items() if len(line.args) > 1})
    if values is not None:
        tree["cors"] = Said(values, browsers[f"{PREFIX}allow-origin"].location)
        reading.carry(line for line in lines if line.value.lower().startswith(PREFIX))
    else:
        reading.left(browsers.values(), "list the allowed origins in 'cors'")


def _hoist(door: Door, tree: Tree) -> None:
    """Say once what all routes say of the headers of answers."""
    routes = [route for _, route in door.routes if "pool" in route]
    said = [route.get("response_headers") for route in routes]
    if said and said[0] and all(one == said[0] for one in said):
        tree["response_headers"] = Said(said[0], door.routes[0][0].block.location)
        for route in routes:
            route["response_headers"] = {}


def _timers(reading: Reading, level: Level, tree: Tree) -> None:
    values: dict[str, Any] = {}
    for name, key in _TIMES.items():
        line = level.first(name)
        time = nginx_time(line.value) if line else None
        if line is not None and time:
            values[key] = duration(time)
            reading.ledger.carried(line.location)
            tree["timeouts"] = Said(values, line.location)
