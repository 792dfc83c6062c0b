"""Who may call a frontend, and how often: keys, networks, counters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lbgen.fleet.schema.listener import LISTENER
from lbgen.imports.draft import Said, free_name
from lbgen.imports.values import haproxy_time, network

if TYPE_CHECKING:
    from lbgen.imports.draft import Tree
    from lbgen.imports.haproxy.listeners.front import Front
    from lbgen.imports.haproxy.listeners.terms import Condition, Term
    from lbgen.imports.haproxy.reading import Reading
    from lbgen.readers.haproxy import Line

_LISTENER_KEYS = frozenset(field.name for field in LISTENER.fields)
_SECONDS = (("s", 1_000), ("m", 60_000), ("h", 3_600_000))


def read_keys(reading: Reading, front: Front, line: Line, condition: Condition) -> bool:
    """Read a refusal of requests without a key; return False for a rule that is none."""
    if len(condition.alternatives) != 1:
        return False
    asked = [term for term in condition.alternatives[0] if term is not None and _keys(term)]
    others = [term for term in condition.alternatives[0] if term is None or not _keys(term)]
    if not asked or not all(term.negated for term in asked):
        return False
    values = [(value, term) for term in asked for _, value in _keys(term)]
    header = next(name for term in asked for name, _ in _keys(term))
    if None in others or not _one_check(front, asked, header):
        return False
    again = bool(front.keys)
    front.header = header
    front.passing = {text for text, _ in values}
    front.keys.append(line)
    reading.carry([line, *condition.lines])
    for _, term in values if not again else ():
        _client(reading, front, term, line)
    if others:
        reading.ledger.differs(
            line.location, "the whole listener asks for a key; 'status' has probes without one"
        )
    return True


def _one_check(front: Front, asked: list[Term], header: str) -> bool:
    """Tell whether keys come in one header, as lbgen reads them, and are those that already pass, if any."""
    pairs = [pair for term in asked for pair in _keys(term)]
    bearer = all(re.fullmatch(r"(?i)bearer \S+", text) for _, text in pairs)
    if {name.lower() for name, _ in pairs} != {header.lower()}:
        return False
    if header.lower() == "authorization" and not bearer:
        return False
    same = front.header.lower() == header.lower() and {text for _, text in pairs} == front.passing
    return not front.keys or same


def _keys(term: Term) -> list[tuple[str, str]]:
    """Return the header and each value that a test compares it with."""
    if set(term.values) == {"header"}:
        return list(term.values["header"].items())
    if set(term.values) == {":header"}:
        name, values = term.values[":header"]
        return [(name, value) for value in values]
    return []


def _client(reading: Reading, front: Front, term: Term, line: Line) -> None:
    """Add a client; an ACL of its own gives it its name."""
    acl = term.lines[0].words[1] if term.lines else ""
    name = free_name(acl if len(term.lines) == 1 and acl else "client", reading.draft.clients)
    place = term.lines[0].location if term.lines else line.location
    reference = reading.draft.secret(f"{name}_key", f"the key of the client '{name}'", place)
    reading.draft.clients[name] = {"key": Said(reference, place)}
    front.clients.append(name)


def read_networks(reading: Reading, front: Front, line: Line, condition: Condition) -> bool:
    """Read a refusal by the client's address."""
    term = condition.only(":src")
    if term is None:
        return False
    _, _, values = term.values[":src"]
    key = "allow" if term.negated else "deny"
    if key not in _LISTENER_KEYS or not values:
        return False
    known = front.networks.get(key)
    if known is not None and key == "allow":
        return False  # both have to hold
    found = [network(value) for value in values]
    front.networks[key] = Said([*(known.value if known else []), *found], line.location)
    reading.carry([line, *condition.lines])
    return True


def read_limit(reading: Reading, front: Front, line: Line, condition: Condition) -> bool:
    """Read a refusal by a counter; return False for a rule that is none."""
    rates = [term for term in condition.terms if ":rate" in term.values]
    if not rates:
        return False
    found, _, values = rates[0].values[":rate"]
    counter = re.search(r"(?:sc(\d)_|\((\d))", found[0])
    tracked = front.tracked.get(f"sc{(counter[1] or counter[2]) if counter else '0'}")
    bound = next((int(value) for value in values if value.isdecimal()), None)
    if (
        len(rates) != 1
        or rates[0].negated
        or bound is None
        or tracked is None
        or values[0] not in {"gt", "ge"}
    ):
        reading.ledger.left(line.location, "this counter has no key")
        front.lost.append(line)
        return True
    bound -= values[0] == "ge"
    per = _per(tracked[0], front)
    period = _period(reading, front, tracked[1], found[1])
    if per is None or (found[1] == "http_req_rate" and period is None) or bound < 1:
        reading.ledger.left(line.location, "limits apply to a client, an address or all requests")
        return True
    limit = _limit(found[1], bound, period)
    if limit is None:
        reading.ledger.left(
            line.location, ("limits exist only for the request rate and for requests in flight")
        )
        return True
    front.limits.append(Said({**limit, "per": per}, line.location))
    reading.carry([line, tracked[1], *condition.lines, *_tables(reading, front, tracked[1])])
    if len(condition.terms) > 1:
        reading.ledger.differs(line.location, "the limit is for the whole listener")
    return True


def _per(key: str, front: Front) -> str | None:
    if key == "src":
        return "ip"
    named = re.fullmatch(r"(?:req\.)?f?hdr\(([A-Za-z0-9_-]+)\)", key)
    if named and front.keys and named[1].lower() == front.header.lower():
        return "client"
    return None


def _tables(reading: Reading, front: Front, track: Line) -> list[Line]:
    """Return the table that a rule counts in."""
    name = track.after("table")
    section = reading.configuration.backend(name) if name else front.section
    return list(section.own("stick-table")) if section is not None else []


def _period(reading: Reading, front: Front, track: Line, what: str) -> int | None:
    """Return the time, in milliseconds, in which requests are counted."""
    for table in _tables(reading, front, track):
        found = re.search(rf"{what}\((\w+)\)", " ".join(table.words))
        if found:
            return haproxy_time(found[1])
    return None


def _limit(what: str, bound: int, period: int | None) -> dict[str, Any] | None:
    if what == "conn_cur":
        return {"concurrent": bound}
    if what != "http_req_rate" or not period:
        return None
    for unit, length in _SECONDS:
        amount = bound * length / period
        if amount == int(amount):
            # A window lets all of its requests come at once.
            return {"rate": f"{int(amount)}/{unit}", "burst": max(bound - 1, 0)}
    return None


def guarded(reading: Reading, front: Front) -> Tree:
    """Return what a listener asks of its clients; a key that nobody has where what guarded it has no key."""
    tree: Tree = {**front.networks}
    clients, place = front.clients, front.keys[0].location if front.keys else None
    if front.lost:
        place = front.lost[0].location
        name = "everybody"
        if name not in reading.draft.clients:
            reference = reading.draft.secret(f"{name}_key", f"the key of the client '{name}'", place)
            reading.draft.clients[name] = {"key": Said(reference, place)}
        clients = [name]
        reading.ledger.left(
            place, f"until that is settled, its listener asks for the key of the client '{name}'"
        )
    if clients:
        values: dict[str, Any] = {"clients": clients, "upstream": "pass"}
        removed = front.headers.get("remove", [])
        if any(one.lower() == front.header.lower() for one in removed):
            del values["upstream"]
            removed[:] = [one for one in removed if one.lower() != front.header.lower()]
        if front.header.lower() != "authorization" and front.keys and not front.lost:
            values["header"] = front.header
        tree["auth"] = Said(values, place)
    if front.limits:
        tree["limits"] = front.limits
    return tree
