"""TLS from HAProxy to the servers."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from lbgen.targets.haproxy.language.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Pool
    from lbgen.targets.haproxy.assembly import Assembly

SYSTEM_CA = "@system-ca"
"""HAProxy's word for the system's store of public authorities (2.6 and later)."""


def tls_words(made: Assembly, pool: Pool) -> Iterator[str]:
    """Yield the words of a server line; nothing without TLS."""
    tls = pool.tls
    if tls is None:
        return
    yield "ssl"
    if tls.verify:
        yield f"verify required ca-file {quote(tls.ca or SYSTEM_CA)}"
    else:
        yield "verify none"
    name = tls.server_name or _common_name(pool)
    if name:
        # Without these no name is sent, and none is compared with the certificate.
        yield f"sni str({name}) check-sni {name}"
        if tls.verify:
            yield f"verifyhost {name}"
    if tls.certificate:
        joined = tls.key not in {None, tls.certificate, f"{tls.certificate}.key"}
        # By its full path: a server's `crt` is not looked up beside the configuration (seen on 2.6).
        whole = quote(f"{PurePosixPath(made.settings.directory) / tls.certificate}")
        yield f"crt {made.server_pem(tls.certificate, tls.key or '') if joined else whole}"
    yield f"alpn {'h2' if pool.protocol != 'http' else 'http/1.1'}"
    yield f"check-alpn {'h2' if pool.protocol != 'http' else 'http/1.1'}"


def _common_name(pool: Pool) -> str | None:
    if pool.discover and pool.discover.dns:
        return pool.discover.dns
    hosts = {server.address.host for server in pool.servers if server.address.is_name}
    return hosts.pop() if len(hosts) == 1 else None
