"""Active health checks of a backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.language.quoting import quote
from lbgen.targets.haproxy.language.words import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Pool
    from lbgen.targets.haproxy.assembly import Assembly


def check_lines(made: Assembly, pool: Pool) -> Iterator[str]:
    """Yield the options of the check; what each server does about it stands on its own line."""
    health = pool.health
    if health is None:
        return
    yield f"timeout check {duration(health.timeout)}"
    if health.path is None:
        return  # that the connection opens is all that is checked
    yield "option httpchk"
    # The one spelling that no version warns about (2.6 to 3.2); HTTP/1.1 needs a Host.
    version = "HTTP/2" if pool.protocol != "http" and not health.port else "HTTP/1.1"
    words = [
        f"http-check send meth GET uri {quote(health.path)} ver {version} hdr Host {check_host(made, pool)}"
    ]
    words += [f"hdr {quote(name)} {made.word(value)}" for name, value in health.headers.items()]
    yield " ".join(words)
    yield f"http-check expect status {health.expect}"


def check_host(made: Assembly, pool: Pool) -> str:
    """Return the Host of a check: one word for all servers of a backend."""
    if pool.host_header not in {"client", "backend"}:
        return made.word(pool.host_header)
    if pool.tls and pool.tls.server_name:
        return made.word(pool.tls.server_name)
    addresses = {str(server.address) for server in pool.servers}
    # Ollama answers 403 to foreign names when it listens on loopback, and never to this one.
    alone = len(addresses) == 1 and not pool.servers[0].address.is_unix
    return made.word(addresses.pop()) if alone else "localhost"
