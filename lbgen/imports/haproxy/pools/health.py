"""``option httpchk``, ``http-check`` and the servers' own words as ``health`` of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.imports.draft import Said
from lbgen.imports.secrets import is_secret_header, is_secret_query
from lbgen.imports.values import duration, haproxy_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.imports.draft import Tree
    from lbgen.imports.haproxy.pools.servers import Parameters
    from lbgen.imports.haproxy.reading import Reading
    from lbgen.readers.haproxy import Line, Section

_OTHER_CHECKS = (
    *("mysql-check", "redis-check", "smtpchk", "pgsql-check", "ldap-check", "ssl-hello-chk", "tcp-check"),
    *("external-check", "spop-check"),
)


def health(
    reading: Reading, section: Section, servers: Sequence[Parameters], shared: dict[str, str], tree: Tree
) -> None:
    """Add a pool's checks; nothing is written where no server is checked, and the default holds."""
    line = section.option("httpchk")
    checked = [one for one in servers if "check" in one.values]
    for name in _OTHER_CHECKS:
        other = section.option(name)
        if other is not None:
            reading.ledger.left(other.location, "checks use HTTP or a TCP connection")
    values = _times(shared)
    timeout = section.last("timeout", "check")
    time = haproxy_time(timeout.words[2]) if timeout is not None and len(timeout.words) > 2 else None
    if timeout is not None and time:
        values["timeout"] = duration(time)
        reading.ledger.carried(timeout.location)
    if line is not None and checked:
        values = {**_asked(reading, section, line), **values}
    elif line is not None:
        reading.ledger.better(line.location, "no server said 'check', so nothing was asked")
    if not checked:
        return
    if "addr" in shared:
        reading.ledger.left(checked[0].server.line.location, "checks always go to the server's address")
    place = line.location if line is not None else checked[0].server.line.location
    tree["health"] = Said(values or "tcp", place)


def _times(shared: dict[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    interval = haproxy_time(shared.get("inter", ""))
    if interval:
        values["interval"] = duration(interval)
    for name in ("rise", "fall", "port"):
        if shared.get(name, "").isdecimal():
            values[name] = int(shared[name])
    return values


def _asked(reading: Reading, section: Section, line: Line) -> dict[str, Any]:
    """Return the path, the headers and the status of a check."""
    reading.ledger.carried(line.location)
    words = line.words[2:]
    path = next((word for word in words if word.startswith("/")), "/")
    values: dict[str, Any] = {"path": _path(reading, line, path)}
    if words[:1] and words[0] not in {"GET", path}:
        reading.ledger.differs(line.location, f"the check is a GET, and was {words[0]}")
    headers: dict[str, str] = {}
    for send in section.effective("http-check", "send"):
        reading.ledger.carried(send.location)
        values["path"] = _path(reading, send, send.after("uri") or values["path"])
        for at, word in enumerate(send.words[:-2]):
            if word == "hdr":
                headers[send.words[at + 1]] = _header(reading, send, send.words[at + 1], send.words[at + 2])
    headers = {name: value for name, value in headers.items() if name.lower() not in {"host", "connection"}}
    if headers:
        values["headers"] = headers
    for expect in section.effective("http-check", "expect"):
        reading.ledger.carried(expect.location)
        status = expect.after("status")
        if status is not None and status.isdecimal() and "!" not in expect.words:
            values |= {"expect": int(status)} if status != "200" else {}
        else:
            reading.ledger.left(expect.location, "a check expects one status: 200")
    for other in ("connect", "disable-on-404", "send-state", "set-var"):
        reading.left(section.effective("http-check", other), "a check consists of one request")
    return values


def _path(reading: Reading, line: Line, path: str) -> str:
    """Return the path of a check, without a query that holds a key."""
    if not is_secret_query(path):
        return path
    reading.ledger.left(
        line.location, ("the query of a check may contain a secret, which a fleet file must not contain")
    )
    return path.partition("?")[0]


def _header(reading: Reading, line: Line, name: str, value: str) -> str:
    if is_secret_header(name, value):
        return reading.draft.secret(f"health_{name}", f"the whole value of {name} in checks", line.location)
    return value
