"""What ``proxy_set_header`` says, as headers of a route, the pool's Host, and WebSockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.imports.cors import PREFIX
from lbgen.imports.draft import Said
from lbgen.imports.secrets import is_secret_header
from lbgen.units import is_ip

if TYPE_CHECKING:
    from lbgen.imports.nginx.reading import Reading
    from lbgen.readers.nginx import Directive, Level

_OWN = {"x-real-ip", "x-forwarded-proto", "x-forwarded-host", "x-request-id", "x-original-forwarded-for"}
"""lbgen sends them with the same meaning."""
_OWN_ANSWERS = {"strict-transport-security", "x-accel-buffering", "content-type", "connection"}
_CLIENT_HOSTS = {"$host", "$http_host", "$host:$server_port", "$host:$proxy_port", "$server_name"}
_BACKEND_HOSTS = {"$proxy_host"}


class Headers(NamedTuple):
    """What one location does to the headers of requests."""

    set: dict[str, str]
    remove: list[str]
    host: Said | None
    """The pool's ``host_header``; None: the client's, which is the default."""
    websocket: Directive | None
    closes: Directive | None
    """Connections to the servers are not kept."""
    credentials: list[tuple[str, Directive]]
    """The headers in which servers get a key of their own, and where each stands."""
    place: Directive | None


def headers(reading: Reading, level: Level, called: str) -> Headers:
    """Return what a location does to headers. `called`: the host in ``proxy_pass``."""
    lines = level.all("proxy_set_header", "grpc_set_header")
    found = Headers({}, [], _unsaid_host(level, called), None, None, [], lines[0] if lines else None)
    for line in lines:
        if len(line.args) == 2:
            reading.ledger.carried(line.location)
            found = _with(reading, found, line)
    return found


def _with(reading: Reading, found: Headers, line: Directive) -> Headers:
    name, value = line.args[0], line.args[1]
    lower = name.lower()
    if lower == "host":
        return found._replace(host=_host(reading, line))
    if lower == "upgrade" and value == "$http_upgrade":
        reading.carry(_maps_over(reading, "$http_upgrade"))
        return found._replace(websocket=line)
    if lower == "connection":
        return found._replace(closes=line) if value.lower() == "close" else found
    if lower == "x-forwarded-for":
        if value != "$remote_addr":
            reason = "what clients write into it is believed of 'trusted_proxies' alone"
            reading.ledger.better(line.location, reason)
    elif "$" not in value and is_secret_header(name, value):
        found.credentials.append((name, line))
    elif not value:
        found.remove.append(name)
    elif "$" not in value:
        found.set[name] = value
    elif value != f"$http_{lower.replace('-', '_')}" and lower not in _OWN:
        reading.ledger.left(line.location, "there is no key for headers with variables")
    return found


def response_headers(reading: Reading, level: Level, protocol: str) -> dict[str, Any]:
    """Return what a location does to the headers of answers, but for those that have keys of their own."""
    added: dict[str, str] = {}
    for line in level.all("add_header"):
        name = line.value.lower()
        own = name in _OWN_ANSWERS or name.startswith(PREFIX)
        if own or len(line.args) < 2:
            continue
        if "$" in line.args[1]:
            reading.ledger.left(line.location, "there is no key for headers with variables")
        else:
            secret = is_secret_header(line.value, line.args[1])
            added[line.value] = _by_reference(reading, line) if secret else line.args[1]
            reading.ledger.carried(line.location)
    hidden = level.all(f"{protocol}_hide_header")
    reading.carry(hidden)
    changes = {"set": added, "remove": [line.value for line in hidden if line.args]}
    return {key: value for key, value in changes.items() if value}


def _by_reference(reading: Reading, line: Directive) -> str:
    """Return a reference in place of the value of a header of answers."""
    known = [name for name, _, place in reading.draft.secrets if place == line.location]
    what = f"the whole value of {line.value} in answers"
    return known[0] if known else reading.draft.secret(f"answer_{line.value}", what, line.location)


def _maps_over(reading: Reading, source: str) -> list[Directive]:
    """Return the maps over a variable, and what is in them."""
    tables = [table for table in reading.maps.values() if table.args[0] == source]
    return [one for table in tables for one in (table, *(table.block or ()))]


def _unsaid_host(level: Level, called: str) -> Said | None:
    """Return the Host that NGINX sends unless told: the address or name in ``proxy_pass``."""
    place = level.first("proxy_pass") or level.first("grpc_pass")
    if "." not in called and ":" not in called:
        return None  # the name of a group, which no server knows for its own
    return Said(
        "backend", place.location if place else None, beside="NGINX's default for an address in proxy_pass"
    )


def _host(reading: Reading, line: Directive) -> Said | None:
    value = line.args[1]
    if value in _CLIENT_HOSTS:
        return None
    if value in _BACKEND_HOSTS:
        return Said("backend", line.location)
    if "$" in value:
        reading.ledger.left(line.location, "there is no key for a Host with variables")
        return None
    if is_ip(value):
        reading.ledger.differs(line.location, "host_header is 'backend': with the server's port")
        return Said("backend", line.location)
    return Said(value, line.location)
