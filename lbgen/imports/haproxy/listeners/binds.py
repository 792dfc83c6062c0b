"""``bind`` lines as addresses and TLS of listeners."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.imports.ledger import words_by_title
from lbgen.imports.servers import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.imports.haproxy.reading import Reading
    from lbgen.problems import Location
    from lbgen.readers.haproxy import Line, Section

_WORDS = words_by_title("""
with-value: crt ca-file verify ssl-min-ver ssl-max-ver alpn npn ciphers ciphersuites curves ecdhe name
    user uid gid
    group mode level maxconn backlog nice interface mss namespace process thread tcp-ut crt-list crl-file
    ca-sign-file ca-verify-file crt-ignore-err ca-ignore-err proto id guid severity-output sigalgs
    client-sigalgs
without-key: crt-list generate-certificates crt-ignore-err ca-ignore-err interface
""")


class Bind(NamedTuple):
    """One address of a frontend."""

    address: Any
    place: Location
    tls: dict[str, Any] | None
    http2: bool
    proxy: bool


def binds(reading: Reading, section: Section) -> Iterator[Bind]:
    """Yield the addresses of a section; those that a fleet cannot have are noted as left."""
    for line in section.own("bind"):
        reading.ledger.carried(line.location)
        values = _parameters(line)
        tls = _tls(reading, line, values) if "ssl" in values else None
        for word in _WORDS["without-key"] & values.keys():
            reading.ledger.left(line.location, f"'{word}' has no key")
        http2 = "h2" in values["alpn"].split(",") if "alpn" in values else True
        for text in line.words[1].split(",") if len(line.words) > 1 else ():
            address, reason = _address(text, "v4v6" in values)
            if address is None:
                reading.ledger.left(line.location, reason)
            else:
                yield Bind(address, line.location, tls, http2, "accept-proxy" in values)


def _parameters(line: Line) -> dict[str, str]:
    values: dict[str, str] = {}
    words = iter(line.words[2:])
    for word in words:
        if word in _WORDS["with-value"]:
            values.setdefault(word, next(words, ""))
        else:
            values[word] = ""
    return values


def _address(text: str, both: bool) -> tuple[Any, str]:
    if text.startswith(("unix@", "/", "fd@", "abns@", "sockpair@", "quic")):
        return None, "a listener has a host and a port"
    text = re.sub(r"^(?:ipv[46]@|tcp[46]?@)", "", text)
    host, _, port = text.rpartition(":")
    if host in {"", "*"}:
        host = "0.0.0.0"  # noqa: S104 - it is read
    elif host in {"::", "[::]"}:
        if both and port.isdecimal():
            return int(port), ""
        host = "[::]"
    return listed(f"{host}:{port}", 80)


def _tls(reading: Reading, line: Line, values: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    certificate = values.get("crt", "")
    if certificate:
        found["directory" if _is_folder(certificate) else "bundle"] = certificate
    if values.get("verify") == "required" and "ca-file" in values:
        found["client_ca"] = values["ca-file"]
    elif values.get("verify") == "optional":
        reading.ledger.left(
            line.location, ("'client_ca' requires a certificate from every client, unlike this")
        )
    if values.get("ssl-min-ver") == "TLSv1.3":
        found["profile"] = "modern"
    return found


def _is_folder(path: str) -> bool:
    """Tell a folder of certificates from a file of one: as it is here, else by its name."""
    return Path(path).is_dir() or path.endswith("/") or (not Path(path).suffix and not Path(path).is_file())
