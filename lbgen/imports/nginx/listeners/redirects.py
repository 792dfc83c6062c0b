"""Servers that only redirect to HTTPS, as ``redirect_from`` and ``acme`` of the listeners that they mean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lbgen.imports.draft import Said
from lbgen.imports.nginx.listeners.binds import Listen, listens
from lbgen.imports.nginx.routes.destinations import destination
from lbgen.readers.nginx import Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.imports.draft import Tree
    from lbgen.imports.nginx.reading import Reading
    from lbgen.readers.nginx import Directive

_CHALLENGE = "/.well-known/acme-challenge"


class Redirect(NamedTuple):
    """One server that redirects."""

    level: Level
    lines: tuple[Directive, ...]
    acme: dict[str, str] | None
    names: tuple[str, ...]


def redirect_of(reading: Reading, level: Level) -> Redirect | None:
    """Return a server that redirects everything to HTTPS, but perhaps ACME's challenges; else None."""
    lines: list[Directive] = []
    acme: dict[str, str] | None = None
    for one in level.block.block or ():
        if one.name == "location" and one.args and one.args[-1].rstrip("/") == _CHALLENGE:
            acme = _acme(reading, Level((*level.chain, one)))
            lines.append(one)
        elif one.name == "location" and one.args == ("/",):
            inner = one.inside("return", "rewrite")
            if not inner or not all(map(_redirects, inner)):
                return None
            lines += [one, *inner]
        elif one.name == "location":
            return None
        elif one.name in {"return", "rewrite"} and _redirects(one):
            lines.append(one)
    if not any(one.name in {"return", "rewrite"} for one in lines):
        return None
    names = tuple(name for line in level.block.inside("server_name") for name in line.args)
    return Redirect(level, tuple(lines), acme, names)


def _redirects(line: Directive) -> bool:
    text = " ".join(line.args)
    if line.name == "return":
        return bool(re.match(r"(?:30[1278] )?https://", text))
    return bool(re.match(r"\S+ https://", text))


def _acme(reading: Reading, level: Level) -> dict[str, str] | None:
    passes = level.block.inside("proxy_pass")
    root = level.first("root") or level.first("alias")
    if passes:
        found = destination(reading, level, passes[0])
        if found is not None and not found.uri:
            reading.carry(passes)
            return {"pool": found.pool}
    elif root is not None and "$" not in root.value:
        reading.carry([root])
        return {"webroot": root.value}
    return None


def redirects(
    reading: Reading, made: Sequence[tuple[Level, list[Listen], Tree]], waiting: Sequence[Redirect]
) -> None:
    """Hand redirecting servers to the listeners with TLS whose hosts they have."""
    for one in waiting:
        binds = [listen for listen in listens(reading, one.level) if not listen.tls]
        meant = [entry for entry in made if entry[1][0].tls and _same_hosts(entry[0], one)]
        if not meant or not binds:
            reading.ledger.left(one.level.block.location, "no TLS listener has the hosts that it redirects")
            continue
        reading.carry([*one.lines, *one.level.block.inside("server_name")])
        for _, _, tree in meant:
            ports = [listen.bind for listen in binds]
            said = tree.get("redirect_from")
            tree["redirect_from"] = Said([*(said.value if said else []), *ports], binds[0].place)
            if one.acme is not None:
                tree["acme"] = Said(one.acme, one.lines[0].location)
        challenges = [line for line in one.lines if line.name == "location" and line.args[-1] != "/"]
        if one.acme is None:
            reading.left(challenges, "the handling of ACME challenges was not recognised")
        for line in challenges if one.acme is not None else ():
            reading.carry(
                inner for inner in line.block or () if inner.name in {"allow", "default_type", "try_files"}
            )


def _same_hosts(level: Level, redirect: Redirect) -> bool:
    own = {name for line in level.block.inside("server_name") for name in line.args} - {"_", ""}
    theirs = set(redirect.names) - {"_", ""}
    return not own or not theirs or bool(own & theirs)
