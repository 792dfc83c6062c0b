"""The ``http-request`` rules of a backend, as headers of its pool and prefixes of its routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.imports.draft import Said
from lbgen.imports.haproxy.listeners.conditions import Conditions
from lbgen.imports.haproxy.listeners.front import Front
from lbgen.imports.haproxy.listeners.refusals import can_refuse, keeps_out
from lbgen.imports.haproxy.listeners.rules import read_rule

if TYPE_CHECKING:
    from lbgen.imports.haproxy.reading import Reading
    from lbgen.readers.haproxy import Section


def read_backend_rules(reading: Reading, section: Section) -> None:
    """Read what a backend does to requests; it cannot refuse or answer any in a fleet."""
    pool = reading.draft.pools.get(reading.pools.get(section.name, ""))
    if pool is None:
        return
    front = Front(section, Conditions(section))
    for line in section.lines:
        if line.words[:2] == ("http-request", "redirect") or can_refuse(line):
            reading.ledger.left(line.location, "pools do not respond themselves; routes and listeners do")
            if line.words[1:2] != ("redirect",) or keeps_out(front.conditions.of(line.words)):
                reading.refusing[section.name] = line
        elif line.words[0] in {"http-request", "http-response"}:
            read_rule(reading, front, line)
    if front.answers:
        pool["response_headers"] = Said(front.answers, section.location)
    reading.left(front.browsers.values(), "'cors' is the listener's")
    for routes, strip, add, line in front.rewrites:
        if routes == [{}] or all(one.get("path") == strip for one in routes):
            reading.prefixes[section.name] = (strip, add, line)
        else:
            reading.ledger.left(line.location, "a prefix can only be removed for a whole route")
    headers = {key: value for key, value in front.headers.items() if value}
    if headers:
        pool["headers"] = Said(headers, section.location)
