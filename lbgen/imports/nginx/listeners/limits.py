"""``limit_req`` and ``limit_conn`` as limits of a listener."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lbgen.imports.draft import Said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.imports.nginx.reading import Reading
    from lbgen.readers.nginx import Directive, Level

_PER_ADDRESS = {"$binary_remote_addr", "$remote_addr"}
_TOTAL = {"$server_name", "$host", "$server_addr", "$http_host"}


def limits_of(reading: Reading, levels: Sequence[Level], *, keyed: bool) -> list[Said]:
    """Return the limits that all locations of a listener share; others are noted as left."""
    found: list[Said] = []
    for name, kind in (("limit_req", "req"), ("limit_conn", "conn")):
        said = [level.all(name) for level in levels]
        if not any(said):
            continue
        for line in {line for lines in said for line in lines}:
            if not all(line in lines for lines in said):
                reading.ledger.left(
                    line.location, "limits apply to a whole listener; only some locations had this one"
                )
                continue
            limit = _limit(reading, line, kind, keyed=keyed)
            found += [limit] if limit is not None else []
    for level in levels:
        reading.carry(level.all("limit_req_status", "limit_conn_status", "limit_req_log_level"))
    return sorted(found, key=lambda one: str(one.place))


def _limit(reading: Reading, line: Directive, kind: str, *, keyed: bool) -> Said | None:
    zone = (line.parameter("zone") or "") if kind == "req" else line.value
    places = [one for one, _ in reading.directives(f"limit_{kind}_zone") if _zone(one) == zone]
    if not places:
        reading.ledger.left(line.location, f"its zone '{zone}' was not found")
        return None
    per = _per(places[0].value, keyed=keyed)
    values = _rate(line, places[0]) if kind == "req" else _concurrent(line)
    reading.carry((line, places[0]))
    if per is None or values is None:
        reading.left(
            (line, places[0]),
            f"limits apply to a client, an address or all requests, not {places[0].value}",
        )
        return None
    return Said({**values, "per": per}, line.location)


def _zone(line: Directive) -> str:
    return (line.parameter("zone") or "").partition(":")[0]


def _per(key: str, *, keyed: bool) -> str | None:
    if key in _PER_ADDRESS:
        return "ip"
    if key in _TOTAL or "$" not in key:
        return "total"
    return "client" if keyed and key in {"$http_authorization", "$http_x_api_key"} else None


def _rate(line: Directive, zone: Directive) -> dict[str, Any] | None:
    rate = re.fullmatch(r"(\d+)r/([sm])", zone.parameter("rate") or "")
    burst = line.parameter("burst") or "0"
    if rate is None or not burst.isdecimal():
        return None
    return {"rate": f"{rate[1]}/{rate[2]}", **({"burst": int(burst)} if int(burst) else {})}


def _concurrent(line: Directive) -> dict[str, Any] | None:
    return {"concurrent": int(line.args[1])} if len(line.args) == 2 and line.args[1].isdecimal() else None
