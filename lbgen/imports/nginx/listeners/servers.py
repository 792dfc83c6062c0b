"""``server`` blocks as listeners."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.imports.draft import Said, free_name
from lbgen.imports.nginx.listeners.binds import Listen, listens
from lbgen.imports.nginx.listeners.guards import guard
from lbgen.imports.nginx.listeners.listener_values import listener_values, tls
from lbgen.imports.nginx.listeners.redirects import Redirect, redirect_of, redirects
from lbgen.imports.nginx.routes.routes import read_location
from lbgen.readers.nginx import Level
from lbgen.units import is_ip

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.imports.draft import Tree
    from lbgen.imports.nginx.reading import Reading
    from lbgen.readers.nginx import Directive


class Door(NamedTuple):
    """What a server's locations say that a fleet says of the listener."""

    routes: list[tuple[Level, dict[str, Any]]]
    websocket: list[Directive]
    credentials: list[tuple[dict[str, Any], str, Directive]]
    """A key that servers get in place of the client's: the route, the header, where it stands."""


def read_servers(reading: Reading) -> None:
    """Make a listener of each server that leads somewhere, two where it listens with and without TLS."""
    waiting: list[Redirect] = []
    made: list[tuple[Level, list[Listen], Tree]] = []
    for level in reading.levels("server"):
        if level.around("upstream") is not None or _shows_status(level):
            continue
        reading.ledger.carried(level.block.location)
        found = redirect_of(reading, level)
        if found is not None:
            waiting.append(found)
            continue
        made += _listeners(reading, level)
    redirects(reading, made, waiting)
    _hosts(reading, made)


def _shows_status(level: Level) -> bool:
    locations = level.block.inside("location")
    return bool(locations) and all(one.inside("stub_status") for one in locations)


def _listeners(reading: Reading, level: Level) -> Iterator[tuple[Level, list[Listen], Tree]]:
    door = Door([], [], [])
    for below in _locations(level):
        door.routes.extend((below, route) for route in read_location(reading, below, door))
    if not any("pool" in route for _, route in door.routes) and not _answers(door):
        reason = "no location of it leads to a pool: other hosts are answered with 404 by default"
        reading.ledger.better(level.block.location, reason)
        for one in level.block.block or ():
            if one.block is None:
                reading.ledger.better(one.location, reason)
        return
    binds = listens(reading, level)
    groups = [[one for one in binds if one.tls is secure] for secure in (True, False)]
    for group in groups:
        if group:
            yield level, group, _listener(reading, level, group, door)


def _answers(door: Door) -> bool:
    return any(route["respond"]["status"] < 400 for _, route in door.routes)


def _locations(level: Level) -> Iterator[Level]:
    """Yield the locations of a server, those inside others as well."""
    for one in level.block.inside("location"):
        below = Level((*level.chain, one))
        yield below
        yield from _locations(below)


def _listener(reading: Reading, level: Level, group: Sequence[Listen], door: Door) -> Tree:
    tree: Tree = {}
    binds = _merged([one.bind for one in group])
    tree["bind"] = Said(binds[0] if len(binds) == 1 else binds, group[0].place)
    if group[0].tls:
        tree |= tls(reading, level)
    if any(one.proxy for one in group):
        tree["accept_proxy"] = Said(value=True, place=group[0].place)
    tree |= listener_values(reading, level, door)
    tree |= guard(reading, door, level)
    if door.websocket:
        tree["websocket"] = Said(value=True, place=door.websocket[0].location)
    tree["routes"] = [(route, below.block) for below, route in door.routes]
    names = [one for line in level.block.inside("server_name") for one in line.args]
    reading.draft.listeners[_name(reading, names, group)] = tree
    return tree


def _merged(binds: list[Any]) -> list[Any]:
    """Return addresses, IPv4 and IPv6 of one port as that port alone."""
    found: list[Any] = []
    for bind in binds:
        port = str(bind).rpartition(":")[2]
        pair = {f"0.0.0.0:{port}", f"[::]:{port}"}
        if pair <= set(map(str, binds)) and str(bind) in pair:
            bind = int(port)  # noqa: PLW2901 - the two are one
        if bind not in found:
            found.append(bind)
    return found


def _name(reading: Reading, names: Sequence[str], group: Sequence[Listen]) -> str:
    real = [name for name in names if re.search(r"[A-Za-z].*\.", name)]
    port = str(group[0].bind).rpartition(":")[2].strip("${}")
    text = real[0].removeprefix("*.") if real else f"listen-{port}"
    if real and f"{text}" in reading.draft.listeners:
        text = f"{text}-{port}"
    return free_name(text, reading.draft.listeners)


def _hosts(reading: Reading, made: Sequence[tuple[Level, list[Listen], Tree]]) -> None:
    """Give listeners the hosts that they are told apart by; the default one takes the others."""
    for level, group, tree in made:
        lines = level.block.inside("server_name")
        names = [name for line in lines for name in line.args]
        reading.carry(lines)
        odd = [name for name in names if name.startswith("~") or name.endswith(".*") or "$" in name]
        if odd:
            reading.left(lines, f"'{odd[0]}' has no key: hosts are names, or begin with '*.'")
        plain = [one for name in names if _is_host(name) and name not in odd for one in _both(name)]
        if not plain or any(one.default for one in group):
            continue  # it takes every host that no other listener names
        tree["hosts"] = Said(plain, lines[0].location)
        if not any(other is not tree and _meet(group, its) for _, its, other in made):
            reading.ledger.differs(
                lines[0].location,
                "as the only server at this address, NGINX also served all other hosts and requests by"
                " address; lbgen answers these with 404: remove 'hosts' to serve them",
            )


def _is_host(name: str) -> bool:
    bare = name.removeprefix("*").removeprefix(".")
    return bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", bare)) and not is_ip(bare) and bare != "localhost"


def _both(name: str) -> list[str]:
    return [name[1:], f"*{name}"] if name.startswith(".") else [name]


def _meet(one: Sequence[Listen], other: Sequence[Listen]) -> bool:
    return bool({listen.bind for listen in one} & {listen.bind for listen in other})
