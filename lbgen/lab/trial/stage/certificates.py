"""TLS in a trial: the fleet's own certificates where they are here, and an authority for what is ours."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lbgen.checker.certificate import throwaway_bundle
from lbgen.checker.surroundings import Surroundings
from lbgen.reading import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lbgen.model import Fleet, Listener, ListenerTls, Pool, ServerTls

SHOWN = 4


class Bundle(NamedTuple):
    """A certificate with its key that the mock GPU servers and the load driver's client show."""

    path: Path

    @classmethod
    def make(cls, folder: Path, pool: Pool) -> Bundle:
        """Write one that is for the name by which a pool's servers are verified."""
        path = folder / "mock.pem"
        path.write_text(throwaway_bundle(server_name(pool) or "lbgen trial"), encoding="ascii")
        return cls(path)


def server_name(pool: Pool) -> str | None:
    """Return the name that targets ask a pool's servers for: the one written, or their common host."""
    if pool.tls is None or pool.tls.server_name:
        return pool.tls.server_name if pool.tls else None
    hosts = {server.address.host for server in pool.servers if server.address.is_name}
    return hosts.pop() if len(hosts) == 1 else None


def absent(fleet: Fleet, pool: Pool, targets: Sequence[str]) -> list[str]:
    """Return the certificate files of a fleet that a trial needs and that are not here."""
    return list(dict.fromkeys(name for target in targets for name in _absent(fleet, pool, target)))


def refusal(paths: Sequence[str]) -> str:
    """Return what is said of absent files, with how to try the fleet anyway."""
    return (
        f"certificate files of the fleet are missing or cannot be read: {listed(paths)}; use"
        " generated ones with --stand-ins"
    )


def listed(paths: Sequence[str]) -> str:
    """Return some paths for people."""
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return ", ".join(paths[:SHOWN]) + more


def like(fleet: Fleet, other: Fleet) -> Fleet:
    """Return a fleet with the certificates of another one that has the same pools and listeners."""
    pools = zip(fleet.pools, other.pools, strict=True)
    listeners = zip(fleet.listeners, other.listeners, strict=True)
    return fleet._replace(
        pools=tuple(one._replace(tls=its.tls) for one, its in pools),
        listeners=tuple(one._replace(tls=its.tls) for one, its in listeners),
    )


def _absent(fleet: Fleet, pool: Pool, target: str) -> Iterator[str]:
    directory = fleet.target(target).directory
    around = Surroundings(Path(), directory, in_container=False, resolve=False)
    for path in files_of(ours(fleet, pool, None)):
        if around.file(path) is None:
            yield str(Path(directory) / path)


def ours(fleet: Fleet, pool: Pool, bundle: Bundle | None) -> Fleet:
    """Return the fleet with our authority where it verifies what is ours in a trial.

    That are the tried pool's servers and the clients. None: with no file named there.
    """
    authority = str(bundle.path) if bundle else None

    def trusting(one: Pool) -> Pool:
        if one.name != pool.name or one.tls is None:
            return one
        return one._replace(tls=one.tls._replace(ca=authority, server_name=server_name(one)))

    def admitting(one: Listener) -> Listener:
        if one.tls is None or one.tls.client_ca is None:
            return one
        return one._replace(tls=one.tls._replace(client_ca=authority))

    return fleet._replace(
        pools=tuple(map(trusting, fleet.pools)), listeners=tuple(map(admitting, fleet.listeners))
    )


def files_of(fleet: Fleet) -> Iterator[str]:
    """Yield the path of each certificate and key that a fleet names, folders included."""
    for listener in fleet.listeners:
        yield from _named(listener.tls, ("certificate", "key", "bundle", "directory", "client_ca"))
    for pool in fleet.pools:
        yield from _named(pool.tls, ("ca", "certificate", "key"))


def contents_of(fleet: Fleet) -> dict[str, bytes]:
    """Return those files by their full paths, with all that is in the folders; for another machine."""
    return contents(files_of(fleet))


def contents(paths: Iterable[str]) -> dict[str, bytes]:
    """Return what files hold, by their paths, and all files of folders."""
    found = {}
    for path in map(Path, paths):
        for one in sorted(path.iterdir()) if path.is_dir() else [path]:
            if one.is_file():
                found[str(one)] = read_bytes(one)
    return found


def client_context(listener: Listener, bundle: Bundle) -> ssl.SSLContext | None:
    """Return how the load driver speaks to a listener; None without TLS.

    What is measured is who answers, not who signed.
    """
    if listener.tls is None:
        return None
    return trusting_context(bundle if listener.tls.client_ca else None)


def trusting_context(bundle: Bundle | None) -> ssl.SSLContext:
    """Return how a client speaks TLS that takes whatever certificate it is shown, and shows this one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if bundle is not None:
        context.load_cert_chain(bundle.path)
    return context


def _named(tls: ListenerTls | ServerTls | None, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        path = getattr(tls, name, None)
        if path is not None:
            yield path
