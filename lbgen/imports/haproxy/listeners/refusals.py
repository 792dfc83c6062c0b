"""What can refuse requests in a HAProxy configuration: all of it that is left closes what it guarded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.imports.draft import CLOSED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.imports.haproxy.listeners.front import Front
    from lbgen.imports.haproxy.listeners.terms import Condition
    from lbgen.imports.haproxy.reading import Reading
    from lbgen.readers.haproxy import Line, Section

_ACTIONS = {"deny", "reject", "silent-drop", "tarpit", "auth", "return", "close"}
_RULES = {"http-request", "http-response", "http-after-response", "tcp-request", "tcp-response"}
_OLD = {"block", "reqdeny", "reqideny", "reqtarpit", "reqitarpit", "rspdeny", "rspideny"}
"""Rules of HAProxy 1."""


def can_refuse(line: Line) -> bool:
    """Tell whether a line can refuse a request."""
    words = line.words
    if words[0] not in _RULES:
        return words[0] in _OLD
    actions = [word.partition("(")[0] for word in words[1:3]]
    action = actions[1] if words[0].startswith("tcp-") and len(actions) > 1 else actions[0] if actions else ""
    service = action == "use-service" and "lua." in " ".join(words)
    return action in _ACTIONS or action.startswith("lua.") or service


def keeps_out(condition: Condition) -> bool:
    """Tell whether a redirect may keep requests out: it is made for more than paths, hosts and headers."""
    return condition.routes() is None


def in_defaults(section: Section) -> Iterator[Line]:
    """Yield the rules that a section has from its defaults."""
    here = section.defaults
    while here is not None:
        yield from (line for line in here.lines if can_refuse(line))
        here = here.defaults


def refuse(reading: Reading, front: Front, line: Line, reason: str) -> None:
    """Note that a rule that refuses requests was left, which closes the listener."""
    reading.ledger.left(line.location, reason)
    front.lost.append(line)


def close_backends(reading: Reading, front: Front) -> None:
    """Close the routes to backends that refuse requests, and the listener where all routes are such."""
    refused = [lead for lead in front.routes if lead.backend in reading.refusing]
    if not refused:
        return
    if all(lead.backend in reading.refusing for lead in front.routes if lead.backend is not None):
        front.lost += [reading.refusing[lead.backend or ""] for lead in refused]
        return
    for lead in refused:
        reason = f"the backend refuses some requests: its paths are answered with {CLOSED['status']}"
        reading.ledger.left(lead.line.location, reason)
    front.routes = [
        lead._replace(backend=None, respond=dict(CLOSED)) if lead in refused else lead
        for lead in front.routes
    ]
