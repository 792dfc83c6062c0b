"""Where ``proxy_pass`` sends: to which pool, over what, with which path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lbgen.imports.nginx.pools.upstreams import direct_pool, runtime_dns

if TYPE_CHECKING:
    from lbgen.imports.nginx.reading import Reading
    from lbgen.readers.nginx import Directive, Level

_PORTS = {"http": 80, "https": 443, "grpc": 80, "grpcs": 443}
_URL = re.compile(r"(?:(http|https|grpc|grpcs)://)?([^/\s$]+|\[[^]]*\](?::\d+)?)(/[^\s]*)?")


class Destination(NamedTuple):
    """What a location calls."""

    pool: str
    scheme: str
    uri: str
    """The path behind the address; empty where the request's own is sent."""
    called: str
    """The host or group as ``proxy_pass`` names it."""


def url_of(level: Level, line: Directive) -> str | None:
    """Return the address with what ``set`` says in place of variables; None where requests differ."""
    text = line.value
    for _ in range(5):
        name = re.search(r"\$\{?(\w+)\}?", text)
        if name is None or name[1] in {"request_uri", "uri"}:
            break
        said = [one for one in _sets(level) if one.args[0] == f"${name[1]}" and len(one.args) == 2]
        if len(said) != 1:
            return None
        text = text.replace(name[0], said[0].args[1])
    text = re.sub(r"\$(request_uri|uri\$is_args\$args)$", "", text)
    return None if "$" in text else text


def _sets(level: Level) -> list[Directive]:
    return [one for block in level.chain for one in block.inside("set")]


def destination(reading: Reading, level: Level, line: Directive) -> Destination | None:
    """Return what a location calls, its pool made where it is new; None for what is not known before."""
    url = url_of(level, line)
    found = _URL.fullmatch(url) if url is not None else None
    if found is None:
        return None
    if url != line.value:
        reading.carry(one for one in _sets(level) if one.args and one.args[0] in line.value)
    scheme, address, uri = found[1] or "grpc", found[2], found[3] or ""
    pool = reading.pools.get(address) or _direct(reading, scheme, address, line)
    if pool is None:
        return None
    if url != line.value and address not in reading.upstreams:
        resolver = level.all("resolver")
        if resolver and _is_name(address):
            reading.draft.pools[pool]["dns"] = runtime_dns(reading, resolver, line)
    return Destination(pool, scheme, uri, address)


def _is_name(address: str) -> bool:
    return bool(re.search(r"[A-Za-z]", address)) and not address.startswith("[")


def _direct(reading: Reading, scheme: str, address: str, line: Directive) -> str | None:
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d+))?", address)
    if found is None:
        return None
    host = found[1].strip("[]")
    return direct_pool(reading, host, int(found[2] or _PORTS[scheme]), line)
