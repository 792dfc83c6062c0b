"""How an ``upstream`` spreads requests, in the words of a fleet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.imports.draft import Said

if TYPE_CHECKING:
    from lbgen.imports.nginx.reading import Reading
    from lbgen.readers.nginx import Directive

_METHODS = ("least_conn", "ip_hash", "hash", "random", "least_time", "sticky", "fair", "queue")
_SOURCES = (
    (r"\$http_([a-z0-9_]+)", "header"),
    (r"\$cookie_(\w+)", "cookie"),
    (r"\$arg_(\w+)", "query"),
)
_ADDRESSES = {"$remote_addr", "$binary_remote_addr", "$realip_remote_addr"}


def strategy(reading: Reading, upstream: Directive) -> Said | None:
    """Return the strategy of an upstream; None where the fleet has none like it, which is noted."""
    lines = upstream.inside(*_METHODS)
    if not lines:
        return Said(
            "round_robin", upstream.location, beside="NGINX's default; least_conn fits LLM traffic better"
        )
    value: object = None
    for line in lines:
        found = _strategy(line)
        if found is None:
            reason = f"no strategy of lbgen is like it: the pool has {'another' if value else 'least_conn'}"
            reading.ledger.left(line.location, reason)
        else:
            value = found
            reading.ledger.carried(line.location)
    return None if value is None else Said(value, lines[0].location)


def _strategy(line: Directive) -> object:
    if line.name == "least_conn":
        return "least_conn"
    if line.name == "ip_hash":
        return {"name": "session", "ip": True}
    if line.name == "hash":
        return session_by(line.value)
    if line.name == "random" and line.value in {"two", ""} and line.args[1:] in {(), ("least_conn",)}:
        return "random_two" if line.value else None
    if line.name == "sticky" and line.value == "cookie" and len(line.args) > 1:
        return {"name": "session", "insert": line.args[1]}
    return None


def session_by(key: str) -> object:
    """Return the session that a variable names; None for what names none."""
    if key in _ADDRESSES:
        return {"name": "session", "ip": True}
    for pattern, source in _SOURCES:
        found = re.fullmatch(pattern, key)
        if found:
            name = header_name(found[1]) if source == "header" else found[1]
            return {"name": "session", source: name}
    return None


def header_name(variable: str) -> str:
    """Return the header that ``$http_x_session_id`` is, as people write it."""
    return "-".join(part.capitalize() for part in variable.split("_"))
