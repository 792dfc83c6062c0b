"""A file that somebody else wrote, tried beside lbgen's: its servers, and where clients enter."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import LbgenError
from lbgen.readers.files import kind_of
from lbgen.reading import MIB, read_text, readable
from lbgen.targets.foreign import Elsewhere
from lbgen.targets.registry import foreign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lbgen.lab.trial.stage.mapping import Standing, Way
    from lbgen.model import Pool
    from lbgen.targets.foreign import Called, Entrance, Foreign
    from lbgen.units import Address

_LARGEST = 16 * MIB


class Beside(NamedTuple):
    """A file, and what a trial has to know of it."""

    file: str
    """As the user named it."""
    target: str
    foreign: Foreign
    servers: Mapping[str, str]
    """By the address that the file calls: the name of the pool's server that it is."""
    entrance: Entrance
    way: Way
    """How a request is sent: as to lbgen's own file, but for the host."""

    @property
    def absent(self) -> list[str]:
        """The certificate files that it names and that are not here."""
        return [f"{one.written} ({one.location})" for one in self.foreign.files
                if one.found is None and one.certificate]  # fmt: skip

    def elsewhere(
        self, servers: Mapping[str, Standing], binds: Mapping[str, Address], folder: str, authority: str
    ) -> Elsewhere:
        """Return where a trial has what it names; what is not here of certificates is `authority`."""
        doors = {address: servers[name].door for address, name in self.servers.items()}
        files = {one.written: str(one.found or authority) for one in self.foreign.files}
        return Elsewhere(doors, binds, folder, files, authority)


def beside(name: str, pool: Pool, way: Way, say: Callable[[str], None], *, stand_ins: bool) -> Beside:
    """Read a file that is to be tried; `say` hears what of it is tried in another way.

    Raises `LbgenError`, with the place, for what keeps it from being run.
    """
    target, read = _read(name)
    for file in read.files:
        if file.found is None and not file.certificate:
            raise LbgenError(f"{file.location}: {file.written} is missing or cannot be read")
    found = Beside(name, target, read, _servers(name, read, pool, say), *_entered(name, read, pool, way))
    led = [one for one in read.calls if one.address in found.servers]
    for one in led:
        if one.tls != (pool.tls is not None):
            how, other = ("with TLS", "without") if one.tls else ("without TLS", "with it")
            raise LbgenError(
                f"{one.location}: {one.address} is called {how}, by the fleet {other}: pool {pool.name}"
            )
    if found.absent and not stand_ins:
        raise LbgenError(
            f"certificate files of {name} are missing or cannot be read: {', '.join(found.absent[:4])};"
            " use generated ones with --stand-ins"
        )
    for note in _told(found, pool):
        say(f"trial: {note}")
    return found


def _read(name: str) -> tuple[str, Foreign]:
    if Path(name).is_dir():
        raise LbgenError(f"{name}: a folder: give the main file in it")
    with readable(name):
        text = read_text(name, encoding="utf-8-sig", errors="replace", most=_LARGEST)
    kind = kind_of(text)
    if not kind:
        raise LbgenError(f"{name}: neither an NGINX nor a HAProxy configuration")
    return kind, foreign(kind, name, text)


def _servers(name: str, read: Foreign, pool: Pool, say: Callable[[str], None]) -> dict[str, str]:
    """Return the pool's server by each address that is called: of the same address, else in their order."""
    ours = {str(server.address).lower(): server.name for server in pool.servers}
    groups: dict[str, list[Called]] = {}
    for one in read.calls:
        groups.setdefault(one.group, []).append(one)
    meant = [several for several in groups.values() if any(one.address in ours for one in several)]
    if not meant:
        return _in_order(name, groups, pool, say)
    for one in (one for several in meant for one in several if one.address not in ours):
        raise LbgenError(
            f"{one.location}: {one.address} is no server of the pool {pool.name}, but others of"
            f" '{one.group}' are: a trial has mock GPU servers only for those of the pool"
        )
    found = {one.address: ours[one.address] for several in meant for one in several}
    absent = [server.name for server in pool.servers if server.name not in found.values()]
    if absent:
        say(f"trial: {name} calls none of {', '.join(absent)}")
    return found


def _in_order(
    name: str, groups: Mapping[str, list[Called]], pool: Pool, say: Callable[[str], None]
) -> dict[str, str]:
    alike = {
        tuple(dict.fromkeys(one.address for one in several))
        for several in groups.values()
        if len({one.address for one in several}) == len(pool.servers)
    }
    if len(alike) != 1:
        known = list(dict.fromkeys(one.address for several in groups.values() for one in several))
        said = (
            f"it calls {', '.join(known[:6])}{' and others' * (len(known) > 6)}" if known else "it calls none"
        )
        raise LbgenError(f"{name}: none of its servers is one of the pool {pool.name}: {said}")
    (addresses,) = alike
    pairs = dict(zip(addresses, (server.name for server in pool.servers), strict=True))
    told = ", ".join(f"{address} as {server}" for address, server in list(pairs.items())[:6])
    say(
        f"trial: the servers of {name} have other addresses than the pool's, and are assigned in order:"
        f" {told}"
    )
    return pairs


def _entered(name: str, read: Foreign, pool: Pool, way: Way) -> tuple[Entrance, Way]:
    """Return where clients enter on the way to the pool, and how."""
    ours = {str(server.address).lower() for server in pool.servers}
    led = [one for one in read.entrances if one.calls & ours] or [one for one in read.entrances if one.calls]
    if not led:
        raise LbgenError(f"{name}: has no listener that proxies requests")
    host = way.headers.get("Host", "")

    def fits(one: Entrance) -> tuple[bool, bool, bool]:
        return (not _named(one, host), one.tls != (way.listener.tls is not None), not one.default)

    chosen = min(led, key=fits)
    if chosen.refused:
        raise LbgenError(f"{chosen.location}: {chosen.refused}: a trial cannot use it")
    if chosen.default or _named(chosen, host):
        return chosen, way
    known = next((one for one in chosen.names if one[:1] not in {"~", ""} and one != "_"), host)
    known = known.replace("*", "trial") if not known.startswith(".") else f"trial{known}"
    return chosen, way._replace(headers={**way.headers, "Host": known} if known else way.headers)


def _named(one: Entrance, host: str) -> bool:
    return bool(host) and any(fnmatchcase(host.lower(), name.lower()) for name in one.names)


def _told(found: Beside, pool: Pool) -> Iterator[str]:
    """Yield what people have to know of how the file is tried."""
    yield from found.foreign.notes
    others = {one.address: one.location for one in found.foreign.calls if one.address not in found.servers}
    for address, place in list(others.items())[:8]:
        yield f"{place}: nothing is listening on {address}, which is not a server of the pool {pool.name}"
    if found.absent:
        yield f"generated certificates for {', '.join(found.absent[:4])}"
