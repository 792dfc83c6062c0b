"""How a backend spreads requests, in the words of a fleet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lbgen.imports.draft import Said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.imports.haproxy.pools.servers import Parameters
    from lbgen.imports.haproxy.reading import Reading
    from lbgen.readers.haproxy import Line, Section

_SIMPLE = {
    "roundrobin": "round_robin",
    "static-rr": "round_robin",
    "leastconn": "least_conn",
    "first": "pack",
}
_SAMPLES = (
    (r"(?:req\.|req_)?f?hdr\(([A-Za-z0-9_-]+)\)", "header"),
    (r"(?:req\.|req_)?cook\(([A-Za-z0-9_-]+)\)", "cookie"),
    (r"(?:url_param|urlp)\(([A-Za-z0-9_-]+)\)", "query"),
)


def strategy(reading: Reading, section: Section, servers: Sequence[Parameters]) -> Said | None:
    """Return a backend's strategy; None where the fleet has none like it, which is noted."""
    sticky = _sticky(reading, section, servers)
    line = section.last("balance")
    for other in ("hash-type", "hash-balance-factor"):
        reading.taken(section, other)
    if sticky is not None:
        reading.carry([line])
        return sticky
    if line is None or len(line.words) < 2:
        return Said(
            "round_robin", section.location, beside="HAProxy's default; least_conn fits LLM traffic better"
        )
    value = _balance(line, servers)
    if value is None:
        reading.ledger.left(line.location, "no matching strategy: the pool uses least_conn")
        return None
    reading.ledger.carried(line.location)
    return Said(value, line.location)


def _balance(line: Line, servers: Sequence[Parameters]) -> Any:  # noqa: ANN401 - a name or a mapping
    word, rest = line.words[1], line.words[2:]
    if word == "first" and not all(one.values.get("maxconn", "0") != "0" for one in servers):
        return None
    if word in _SIMPLE:
        return _SIMPLE[word]
    if word in {"random", "random(2)"}:
        return "random_two"
    if word == "source":
        return {"name": "session", "ip": True}
    if word == "url_param" and rest:
        return {"name": "session", "query": rest[0]}
    return session_by(rest[0] if word == "hash" and rest else word)


def session_by(sample: str) -> Any:  # noqa: ANN401 - a mapping, or None
    """Return the session that a sample names; None for what names none."""
    if sample == "src":
        return {"name": "session", "ip": True}
    for pattern, source in _SAMPLES:
        found = re.fullmatch(pattern, sample)
        if found:
            return {"name": "session", source: found[1]}
    return None


def _sticky(reading: Reading, section: Section, servers: Sequence[Parameters]) -> Said | None:
    """Return sessions that the balancer keeps by its own cookie or table."""
    cookie = section.last("cookie")
    if cookie is not None and len(cookie.words) > 1 and any("cookie" in one.values for one in servers):
        if "insert" in cookie.words:
            reading.ledger.carried(cookie.location)
            return Said({"name": "session", "insert": cookie.words[1]}, cookie.location)
        reading.ledger.left(cookie.location, "only cookies that HAProxy inserts ('insert') have a key")
    elif cookie is not None:
        reading.ledger.left(cookie.location, "no server has a cookie value")
    sticks = [
        line
        for line in section.lines
        if line.words[0] == "stick" and line.words[1:2] in {("on",), ("match",)}
    ]
    for line in sticks:
        found = session_by(line.words[2]) if len(line.words) > 2 else None
        if found is not None:
            reading.carry([line, *section.own("stick-table")])
            return Said({**found, "strict": True}, line.location)
        reading.ledger.left(line.location, "there is no key for this source of the session")
    return None
