"""``server`` lines: entries of a pool, and what all of them say of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.fleet.kinds import NAME_PATTERN
from lbgen.imports.ledger import words_by_title
from lbgen.imports.servers import listed, server_entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.imports.draft import Said
    from lbgen.imports.haproxy.reading import Reading
    from lbgen.readers.haproxy import Server

_TEXT = """
with-value: addr agent-addr agent-inter agent-port agent-send alpn ca-file check-alpn check-proto
    check-sni ciphers
    ciphersuites cookie crl-file crt downinter error-limit fall fastinter hash-key id init-addr
    init-state inter
    log-bufsize log-proto max-reuse maxconn maxqueue minconn namespace observe on-error on-marked-down
    on-marked-up pool-conn-name pool-low-conn pool-max-conn pool-purge-delay port proto redir resolve-net
    resolve-opts resolve-prefer resolvers rise set-proxy-v2-tlv-fmt shard slowstart sni source ssl-max-ver
    ssl-min-ver strict-maxconn tcp-ut track verify verifyhost weight ws
decided: alpn check-alpn check-sni check-proto ciphers ciphersuites hash-key id init-addr init-state
    max-reuse
    pool-low-conn pool-max-conn pool-purge-delay resolve-prefer resolve-opts resolve-net ssl-min-ver
    ssl-max-ver tcp-ut check-ssl stick non-stick no-sslv3 no-tlsv10 no-tlsv11 no-tlsv12 force-tlsv12
    force-tlsv13 no-tls-tickets allow-0rtt ws log-bufsize no-send-proxy no-disabled no-verifyhost
shared: inter rise fall port ssl ca-file crt verify sni resolvers slowstart proto check cookie maxqueue
    verifyhost
    addr
"""
_WORDS = words_by_title(_TEXT)
_WITH_VALUE = _WORDS["with-value"]
_OWN = _WORDS["decided"]
"""Parameters that lbgen decides, or that say what is so anyway."""
SHARED = _WORDS["shared"]
"""What all servers of a pool have in common in a fleet."""


class Parameters(NamedTuple):
    """A server with its parameters; flags are ``""``."""

    server: Server
    values: dict[str, str]


def parameters(server: Server) -> dict[str, str]:
    """Return the parameters that hold for a server."""
    found: dict[str, str] = {}
    words = iter(server.words)
    for word in words:
        if word in _WITH_VALUE:
            found[word] = next(words, "")
        elif word.startswith("no-") and word[3:] in {"check", "ssl", "backup", "agent-check"}:
            found.pop(word[3:], None)
        elif word == "enabled":
            found.pop("disabled", None)
        else:
            found[word] = ""
    return found


def entries(reading: Reading, servers: Sequence[Parameters]) -> list[Said]:
    """Return the entries of a pool's list of servers."""
    names = _default_names([one.server.address for one in servers])
    made = []
    for one, default in zip(servers, names, strict=True):
        entry = _entry(reading, one, default)
        made += [entry] if entry is not None else []
    return made


def _entry(reading: Reading, one: Parameters, default: str) -> Said | None:
    server, values = one.server, one.values
    place = server.line.location
    reading.ledger.carried(place)
    address, reason = listed(server.address.removeprefix("ipv4@").removeprefix("ipv6@"), default_port=80)
    if address is None:
        reading.ledger.left(place, reason)
        return None
    made: dict[str, Any] = {}
    if server.name != default and re.fullmatch(NAME_PATTERN, server.name):
        made["name"] = server.name
    if values.get("weight") == "0":
        made["state"] = "drain"
    elif values.get("weight", "").isdecimal() and values["weight"] != "1":
        made["weight"] = int(values["weight"])
    if values.get("maxconn", "0").isdecimal() and int(values.get("maxconn", "0")):
        made["max_in_flight"] = int(values["maxconn"])
    if "backup" in values:
        made["backup"] = True
    if "disabled" in values:
        made["state"] = "down"
    for word in _without_key(values):
        reading.ledger.left(place, f"'{word}' has no key")
    return server_entry(address, made, place, server.line.comments)


def _without_key(values: dict[str, str]) -> Iterator[str]:
    known = _OWN | SHARED | {"weight", "maxconn", "backup", "disabled"}
    return (word for word in values if word not in known)


def _default_names(addresses: Sequence[str]) -> list[str]:
    """Return the names that servers have unless told: the host, or host-port where hosts repeat."""
    hosts = [address.rpartition(":")[0].strip("[]") for address in addresses]
    return [
        host if hosts.count(host) == 1 else f"{host}-{address.rpartition(':')[2]}"
        for host, address in zip(hosts, addresses, strict=True)
    ]


def common(reading: Reading, servers: Sequence[Parameters]) -> dict[str, str]:
    """Return what all servers say alike of their pool; what differs is noted as left."""
    found: dict[str, str] = {}
    for name in SHARED - {"cookie"}:
        said = {one.values.get(name) for one in servers}
        if len(said) == 1 and None not in said:
            found[name] = servers[0].values[name]
        elif len(said) > 1:
            for one in servers:
                if name in one.values:
                    reason = f"'{name}' differs between servers: a fleet has it for the pool"
                    reading.ledger.left(one.server.line.location, reason)
    return found
