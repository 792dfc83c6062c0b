"""``listen`` lines as addresses to bind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.imports.servers import listed

if TYPE_CHECKING:
    from lbgen.imports.nginx.reading import Reading
    from lbgen.problems import Location
    from lbgen.readers.nginx import Level


class Listen(NamedTuple):
    """One address of a server."""

    bind: Any
    place: Location
    tls: bool
    proxy: bool
    """The PROXY protocol is expected."""
    default: bool


def listens(reading: Reading, level: Level) -> list[Listen]:
    """Return where a server listens."""
    lines = level.block.inside("listen")
    switch = level.first("ssl")
    all_tls = switch is not None and switch.value == "on"
    if switch is not None:
        reading.ledger.carried(switch.location)
    found = []
    for line in lines:
        reading.ledger.carried(line.location)
        bind, reason = _bind(line.value, "ipv6only=off" in line.args)
        if bind is None:
            reading.ledger.left(line.location, reason)
            continue
        words = set(line.args[1:])
        default = bool(words & {"default_server", "default"})
        found.append(
            Listen(bind, line.location, all_tls or "ssl" in words, "proxy_protocol" in words, default)
        )
        if "quic" in words:
            reading.ledger.left(line.location, "HTTP/3 has no key")
            found.pop()
    if not lines:
        found.append(Listen("0.0.0.0:80", level.block.location, all_tls, proxy=False, default=False))
    return found


def _bind(text: str, both: bool) -> tuple[Any, str]:
    if text.startswith("unix:"):
        return None, "a listener on a Unix socket has no key"
    if re.fullmatch(r"\d+|\$\{?\w+\}?", text):
        text = f"0.0.0.0:{text}"
    text = text.replace("*:", "0.0.0.0:") if text.startswith("*:") else text
    address, reason = listed(text, 80)
    if both and address is not None and address.startswith("[::]:"):
        return int(address.rpartition(":")[2]), ""
    return address, reason
