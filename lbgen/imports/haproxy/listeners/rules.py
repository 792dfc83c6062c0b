"""The rules of a frontend: where requests go, what is answered, refused, changed or counted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lbgen.imports.cors import PREFIX
from lbgen.imports.draft import CLOSED
from lbgen.imports.haproxy.listeners.answers import fixed_answer, is_computed
from lbgen.imports.haproxy.listeners.guards import read_keys, read_limit, read_networks
from lbgen.imports.haproxy.listeners.refusals import can_refuse, keeps_out, refuse
from lbgen.imports.haproxy.listeners.rewrites import rewrite_of
from lbgen.imports.secrets import is_secret_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbgen.imports.haproxy.listeners.front import Front
    from lbgen.imports.haproxy.listeners.terms import Condition
    from lbgen.imports.haproxy.reading import Reading
    from lbgen.readers.haproxy import Line

_OWN_HEADERS = {
    *("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "x-real-ip"),
    *("x-request-id", "connection", "upgrade", "host"),
}
"""lbgen sends or removes them itself."""
_NOT_UNDERSTOOD = "its condition has no key"


def read_rule(reading: Reading, front: Front, line: Line) -> None:
    """Read one line of a frontend."""
    first = line.words[0]
    front.pool_of = reading.pools.get
    if first == "use_backend":
        _use_backend(reading, front, line)
    elif first == "redirect":
        _redirect(reading, front, line, front.conditions.of(line.words))
    elif first == "monitor-uri" and len(line.words) > 1:
        key = "ready" if front.section.own("monitor", "fail") else "live"
        front.status[key] = line.words[1]
        reading.carry([line, *front.section.own("monitor", "fail")])
    elif first == "http-request" and len(line.words) > 1:
        _request_rule(reading, front, line)
    elif first in {"http-response", "http-after-response"} and not can_refuse(line):
        _response_rule(reading, front, line)
    elif can_refuse(line):
        _other_refusal(reading, front, line)


def _use_backend(reading: Reading, front: Front, line: Line) -> None:
    if len(line.words) < 2:
        return
    condition = front.conditions.of(line.words)
    routes = condition.routes()
    known = line.words[1] in reading.pools or line.words[1] in reading.answers
    if routes is None or not known:
        reason = (
            _NOT_UNDERSTOOD if routes is None else f"'{line.words[1]}' is no backend with a name of its own"
        )
        reading.ledger.left(line.location, f"{reason}: other routes handle its requests")
        return
    _carried(reading, line, condition)
    for one in routes:
        if one.get("websocket"):
            front.websocket = line
        front.lead(one, line.words[1], line)


def _carried(reading: Reading, line: Line, condition: Condition) -> None:
    """Note a rule and its ACLs as carried over, with what differs."""
    reading.carry([line, *condition.lines])
    for term in condition.terms:
        if term.note:
            place = term.lines[0].location if term.lines else line.location
            reading.ledger.differs(place, term.note)


def _redirect(reading: Reading, front: Front, line: Line, condition: Condition) -> None:
    tls = condition.only(":tls")
    to_https = "scheme" in line.words and line.after("scheme") == "https"
    unless_acme = [term for term in condition.terms if not (term.negated and _is_challenge(term.values))]
    plain_only = tls is not None and tls.negated
    rest_is_tls = all(set(term.values) == {":tls"} and term.negated for term in unless_acme)
    if to_https and len(condition.alternatives) == 1 and (plain_only or condition.is_always or rest_is_tls):
        front.redirect = line
        reading.carry([line, *condition.lines])
    else:
        reading.ledger.left(line.location, "the only redirect with a key is from HTTP to HTTPS")
        if keeps_out(condition) and tls is None:
            front.lost.append(line)


def _is_challenge(values: dict[str, Any]) -> bool:
    return str(values.get("path", values.get("path_exact", ""))).startswith("/.well-known/acme-challenge")


def _request_rule(reading: Reading, front: Front, line: Line) -> None:
    condition = front.conditions.of(line.words)
    action = re.sub(r"\(.*", "", line.words[1])
    reader = _ACTIONS.get(action)
    if reader is not None:
        reader(reading, front, line, condition)
    elif action.startswith("track-sc"):
        front.tracked[action.removeprefix("track-")] = (line.words[2] if len(line.words) > 2 else "", line)
    elif can_refuse(line):
        refuse(reading, front, line, "scripts have no key, and this one can refuse requests")


def _other_refusal(reading: Reading, front: Front, line: Line) -> None:
    """Read a refusal of connections or answers: networks, or a limit."""
    condition = front.conditions.of(line.words)
    connection = line.words[0] == "tcp-request"
    if connection and (
        read_limit(reading, front, line, condition) or read_networks(reading, front, line, condition)
    ):
        return
    refuse(reading, front, line, "what it refuses has no key")


def _refusal(reading: Reading, front: Front, line: Line, condition: Condition) -> None:
    """Read ``deny`` and ``return``: a limit, a key, a fixed answer, or paths that alone may pass."""
    if (
        read_limit(reading, front, line, condition)
        or read_keys(reading, front, line, condition)
        or read_networks(reading, front, line, condition)
        or _state(reading, front, line, condition)
        or _only_some(reading, front, line, condition)
    ):
        return
    routes = condition.routes()
    answer = fixed_answer(line)
    if routes is None or answer is None:
        reading.ledger.left(
            line.location,
            _NOT_UNDERSTOOD if routes is None else "the response may contain a secret, or is not text",
        )
        if line.words[1] != "return" or (routes is None and _is_refusal(line)):
            front.lost.append(line)
        elif routes is not None:
            for one in routes:
                front.answer(one, dict(CLOSED), line)
        return
    _carried(reading, line, condition)
    if is_computed(line):
        reading.ledger.differs(line.location, "the text of the error is lbgen's")
    for one in routes:
        front.answer(one, answer, line)


def _is_refusal(line: Line) -> bool:
    return (line.after("status") or "200")[:1] not in "23"


def _state(reading: Reading, front: Front, line: Line, condition: Condition) -> bool:
    """Read a probe that answers by the number of servers that are alive."""
    terms = condition.terms
    if (
        len(terms) != 2
        or not any(":nbsrv" in term.values for term in terms)
        or len(condition.alternatives) != 1
    ):
        return False
    paths = [term.values["path_exact"] for term in terms if set(term.values) == {"path_exact"}]
    if len(paths) != 1 or not isinstance(paths[0], str):
        return False
    front.status["ready"] = paths[0]
    _carried(reading, line, condition)
    return True


def _only_some(reading: Reading, front: Front, line: Line, condition: Condition) -> bool:
    """Read a refusal of everything but some paths or hosts."""
    if len(condition.alternatives) != 1 or not condition.alternatives[0] or front.allowed:
        return False
    terms = condition.alternatives[0]
    usual = {"path", "path_exact", "host"}
    if any(
        term is None or not term.negated or not term.values or not set(term.values) <= usual for term in terms
    ):
        return False
    front.allowed += [{key: value} for term in condition.terms for key, value in term.values.items()]
    status = str((fixed_answer(line) or {}).get("status", 403))
    front.refusal = (line, int(status))
    _carried(reading, line, condition)
    return True


def _header(reading: Reading, front: Front, line: Line, condition: Condition) -> None:
    """Read a header that is set or removed."""
    name = line.words[2] if len(line.words) > 2 else ""
    value = line.words[3] if len(line.words) > 3 else ""
    removes = line.words[1] == "del-header"
    if name.lower() in _OWN_HEADERS:
        reading.carry([line, *condition.lines])
    elif not condition.is_always or (not removes and "%" in value) or "-m" in line.words:
        reading.ledger.left(line.location, "there is no key for headers that depend on the request")
    elif removes:
        front.headers.setdefault("remove", []).append(name)
        reading.ledger.carried(line.location)
    else:
        if is_secret_header(name, value):
            value = reading.draft.secret(f"upstream_{name}", f"the whole value of {name}", line.location)
        front.headers.setdefault("set", {})[name] = value
        reading.ledger.carried(line.location)


def _path(reading: Reading, front: Front, line: Line, condition: Condition) -> None:
    found = rewrite_of(line)
    routes = condition.routes()
    if found is None or routes is None:
        reading.ledger.left(line.location, "paths can only be changed by removing or adding a prefix")
        return
    _carried(reading, line, condition)
    front.rewrites.append((routes, found.strip, found.add, line))


def _variable(reading: Reading, _front: Front, line: Line, condition: Condition) -> None:
    if condition.is_always:
        reading.ledger.carried(line.location)


def _own(reading: Reading, _front: Front, line: Line, _condition: Condition) -> None:
    reading.ledger.carried(line.location)


def _asked_for(reading: Reading, front: Front, line: Line, _condition: Condition) -> None:
    refuse(reading, front, line, "lbgen knows clients by keys")


_ACTIONS: dict[str, Callable[[Reading, Front, Line, Condition], None]] = {
    "redirect": _redirect,
    **dict.fromkeys(("deny", "return", "reject", "silent-drop", "tarpit"), _refusal),
    **dict.fromkeys(("set-header", "add-header", "del-header"), _header),
    **dict.fromkeys(
        ("set-path", "replace-path", "set-pathq", "replace-pathq", "set-uri", "replace-uri"), _path
    ),
    "set-var": _variable,
    **dict.fromkeys(("wait-for-body", "disable-l7-retry"), _own),
    "auth": _asked_for,
}


def _response_rule(reading: Reading, front: Front, line: Line) -> None:
    name = line.words[2].lower() if len(line.words) > 2 else ""
    if name == "strict-transport-security":
        front.hsts = True
        reading.ledger.carried(line.location)
    elif name.startswith(PREFIX) and len(line.words) > 3:
        front.browsers[name] = line
    elif name == "x-accel-buffering":
        front.behind_proxy = line
        reading.ledger.carried(line.location)
    else:
        _answers_header(reading, front, line)


def _answers_header(reading: Reading, front: Front, line: Line) -> None:
    """Read a header of answers that is set or removed."""
    name, value = (*line.words[2:4], "", "")[:2]
    if "if" in line.words or "unless" in line.words or "%[" in value or "-m" in line.words:
        reading.ledger.left(line.location, "there is no key for headers that depend on the request")
    elif line.words[1] in {"set-header", "add-header"} and value:
        if is_secret_header(name, value):
            what = f"the whole value of {name} in answers"
            value = reading.draft.secret(f"answer_{name}", what, line.location)
        front.answers.setdefault("set", {})[name] = value
        reading.ledger.carried(line.location)
    elif line.words[1] == "del-header" and name:
        front.answers.setdefault("remove", []).append(name)
        reading.ledger.carried(line.location)
