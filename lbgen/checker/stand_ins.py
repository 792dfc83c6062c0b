"""A fleet for the checker's eyes only: what is not to be had here is replaced by what is.

The model is changed and rendered anew, not the rendered text: so every file keeps its lines, and
whatever the templates make of a value is what is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lbgen.targets.registry import TARGETS
from lbgen.units import Address, is_ip, parse_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbgen.checker.surroundings import Surroundings
    from lbgen.model import Auth, Fleet, Listener, ListenerTls, Logs, Pool, ServerTls
    from lbgen.runtimes.spec import Program

CERTIFICATES = "certificate files"


def stood_in(fleet: Fleet, target: str, around: Surroundings, program: Program) -> Fleet:
    """Return the fleet as a target's program can check or run it here; `around` remembers the stand-ins."""
    checks = TARGETS[target].checks
    changed = stand_in(fleet, target, around, opens=checks.opens)
    return checks.stand_in(changed, around.folder, lambda arguments: program.run(arguments).output)


def stand_in(fleet: Fleet, target: str, around: Surroundings, *, opens: bool) -> Fleet:
    """Return the fleet with stand-ins for one target; `around` remembers which.

    `opens`: the checker opens listeners and log files, as ``nginx -t`` does.
    """
    listen = _listen_map(fleet, around) if opens else _unchanged
    changed = fleet._replace(
        pools=tuple(_pool(pool, around) for pool in fleet.pools),
        listeners=tuple(_listener(listener, around, listen) for listener in fleet.listeners),
        logs=_logs(fleet.logs, around, opens),
        targets=tuple(
            settings._replace(user=around.user(settings.user)) if settings.name == target else settings
            for settings in fleet.targets
        ),
    )
    if changed.metrics is None:
        return changed
    return changed._replace(metrics=changed.metrics._replace(binds=tuple(map(listen, changed.metrics.binds))))


def _pool(pool: Pool, around: Surroundings) -> Pool:
    # Names that are followed while running are not looked up at the start, but the words around them
    # differ from those of an address: a name that every machine knows keeps them.
    host: Callable[[str], str] = around.host if pool.dns.mode == "static" else _known_name(around)
    servers = tuple(
        server._replace(address=Address(host(server.address.host), server.address.port))
        if server.address.is_name
        else server
        for server in pool.servers
    )
    discover = pool.discover
    if discover is not None and discover.dns is not None:
        discover = discover._replace(dns=_known_name(around)(discover.dns))
    return pool._replace(
        servers=servers,
        discover=discover,
        tls=_server_tls(pool.tls, around) if pool.tls else None,
        dns=pool.dns._replace(resolver=tuple(_resolver(text, around) for text in pool.dns.resolver)),
    )


def _known_name(around: Surroundings) -> Callable[[str], str]:
    def known(name: str) -> str:
        return name if around.host(name) == name else "localhost"

    return known


def _resolver(text: str, around: Surroundings) -> str:
    try:
        host, port = parse_address(text)
    except ValueError:
        return text if is_ip(text.strip("[]")) else around.host(text)
    return text if is_ip(host) else f"{around.host(host)}:{port}"


def _server_tls(tls: ServerTls, around: Surroundings) -> ServerTls:
    certificate, key = _pair(tls.certificate, tls.key, around)
    return tls._replace(ca=_one(tls.ca, around), certificate=certificate, key=key)


def _listener(listener: Listener, around: Surroundings, listen: Callable[[Address], Address]) -> Listener:
    return listener._replace(
        binds=tuple(map(listen, listener.binds)),
        redirect_from=tuple(map(listen, listener.redirect_from)),
        tls=_listener_tls(listener.tls, around) if listener.tls else None,
        auth=_auth(listener.auth, around),
    )


def _listener_tls(tls: ListenerTls, around: Surroundings) -> ListenerTls:
    certificate, key = _pair(tls.certificate, tls.key, around)
    directory = tls.directory
    if directory is not None:
        directory = around.file(directory)
        if directory is None:
            around.certificate(CERTIFICATES, f"{tls.directory}/")
            directory = str(around.folder / "stand-ins")
    return tls._replace(
        certificate=certificate,
        key=key,
        bundle=_one(tls.bundle, around),
        directory=directory,
        client_ca=_one(tls.client_ca, around),
    )


def _pair(certificate: str | None, key: str | None, around: Surroundings) -> tuple[str | None, str | None]:
    """Return both files as the program can read them: the real ones, or both the throwaway bundle."""
    if certificate is None or key is None:
        return _one(certificate, around), _one(key, around)
    found = around.file(certificate), around.file(key)
    if all(found):
        return found
    bundle = around.certificate(CERTIFICATES, certificate, key)
    return bundle, bundle


def _one(path: str | None, around: Surroundings) -> str | None:
    if path is None:
        return None
    return around.file(path) or around.certificate(CERTIFICATES, path)


def _auth(auth: Auth, around: Surroundings) -> Auth:
    if auth.external is None:
        return auth
    host = urlsplit(auth.external.url).hostname or ""
    if not host or is_ip(host):
        return auth
    url = auth.external.url.replace(host, around.host(host), 1)
    return auth._replace(external=auth.external._replace(url=url))


def _logs(logs: Logs, around: Surroundings, opens: bool) -> Logs:
    kind, _, address = logs.to.partition(":")
    if logs.to == "stdout":
        return logs
    if kind == "syslog":
        host, colon, port = address.rpartition(":")
        host = host if colon else address
        if host.startswith(("/", "unix")) or is_ip(host.strip("[]")):
            return logs
        return logs._replace(to=f"syslog:{around.host(host)}{colon}{port if colon else ''}")
    if not opens:
        return logs
    around.note("log file", logs.to)
    return logs._replace(to=str(around.folder / "stand-ins.log"))


def _unchanged(address: Address) -> Address:
    return address


def _listen_map(fleet: Fleet, around: Surroundings) -> Callable[[Address], Address]:
    """Return a map of listen addresses to ones that can be opened here; different ones stay different."""
    used = {bind for listener in fleet.listeners for bind in (*listener.binds, *listener.redirect_from)}
    used |= set(fleet.metrics.binds) if fleet.metrics else set()
    replaced: dict[Address, Address] = {}
    for number, bind in enumerate(sorted(used)):
        if not around.listens(bind):
            around.note("listen addresses", str(bind))
            port = bind.port if bind.port > 1023 else 10_000 + bind.port
            replaced[bind] = Address(around.loopback(number), port)
    return lambda bind: replaced.get(bind, bind)
