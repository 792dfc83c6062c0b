"""Who may call, and how often: keys, other services that are asked, limits, networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.imports.draft import CLOSED, Said
from lbgen.imports.nginx.listeners.keys import Keys, keys_of
from lbgen.imports.nginx.listeners.limits import limits_of
from lbgen.imports.nginx.listeners.listener_values import KEYS
from lbgen.imports.nginx.listeners.refusals import lost, lost_paths
from lbgen.imports.nginx.routes.destinations import url_of
from lbgen.imports.secrets import is_secret_query
from lbgen.imports.values import network
from lbgen.readers.nginx import Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.imports.draft import Tree
    from lbgen.imports.nginx.listeners.servers import Door
    from lbgen.imports.nginx.reading import Reading
    from lbgen.readers.nginx import Directive


def guard(reading: Reading, door: Door, server: Level) -> Tree:
    """Return what a listener asks of its clients; what refused requests and has no key closes."""
    levels = _serving(door)
    tree: Tree = {}
    asked = [_asked(reading, below) for below in levels]
    auth = _one_for_all(reading, [one for one in asked if one is not None])
    if auth is not None:
        for below, one in zip(levels, asked, strict=True):
            if one is None:
                reading.ledger.differs(below.block.location, "it asked for no key: its listener does")
    networks = _networks(reading, levels)
    tree |= networks
    left = {id(below): lost(reading, below) for below in levels}  # its hash is that of the whole file
    for below, one in zip(levels, asked, strict=True):
        if auth is not None and one is not None and one.value != auth.value:
            left[id(below)].append(below.block)
    paths = lost_paths(reading, server)
    if paths or (left and all(left.values())):
        auth = _closed(reading, paths or next(iter(left.values())))
    else:
        _close_routes(reading, door, left)
    if auth is not None:
        tree["auth"] = _with_upstream(reading, auth, door, levels)
    else:
        _own_keys(reading, door)
    limits = limits_of(reading, levels, keyed=auth is not None)
    if limits:
        tree["limits"] = limits
    return tree


def _serving(door: Door) -> list[Level]:
    """Return the locations that lead to a pool; where none does, those that answer themselves."""
    to_pools = [below for below, route in door.routes if "pool" in route]
    return to_pools or [below for below, route in door.routes if route["respond"]["status"] < 400]


def _asked(reading: Reading, level: Level) -> Said | None:
    """Return what a location asks of its clients, as ``auth``."""
    request = level.first("auth_request")
    keys = keys_of(reading, level)
    if request is not None and request.value != "off":
        inner = _asked_location(level, request)
        if inner is None or inner.block.inside("proxy_pass") or keys is not None:
            return _external(reading, inner, request)
        keys = keys_of(reading, inner)
        if keys is None:
            return None
        reading.carry((request, inner.block, *(one for one in inner.block.block or () if one.name != "if")))
    if keys is None:
        return None
    names = _clients(reading, keys)
    values: dict[str, Any] = {"clients": names}
    if keys.header.lower() != "authorization":
        values["header"] = keys.header
    return Said(values, keys.place)


def _clients(reading: Reading, keys: Keys) -> list[str]:
    names = []
    for name, place in keys.clients:
        known = [one for one, tree in reading.draft.clients.items() if tree["key"].place == place]
        if known:
            names += known
            continue
        free = name
        number = 2
        while free in reading.draft.clients:
            free, number = f"{name}-{number}", number + 1
        reference = reading.draft.secret(f"{free}_key", f"the key of the client '{free}'", place)
        reading.draft.clients[free] = {"key": Said(reference, place)}
        names.append(free)
    return names


def _asked_location(level: Level, request: Directive) -> Level | None:
    """Return the location that ``auth_request`` asks."""
    server = level.around("server")
    for one in server.inside("location") if server is not None else ():
        if one.args[-1] == request.value and server is not None:
            return Level((*level.chain[: level.chain.index(server) + 1], one))
    return None


def _external(reading: Reading, inner: Level | None, request: Directive) -> Said | None:
    """Return the service that ``auth_request`` asks."""
    passes = inner.block.inside("proxy_pass") if inner is not None else ()
    if inner is None or len(passes) != 1:
        reading.ledger.left(request.location, "it does not refer to one proxied location")
        return None
    url = url_of(inner, passes[0])
    if url is None or not url.startswith(("http://", "https://")):
        reading.ledger.left(request.location, "the URL of the service contains variables")
        return None
    if is_secret_query(url):
        reading.ledger.left(request.location, "the URL of the service contains a secret")
        return None
    reading.carry((request, inner.block, *(inner.block.block or ())))
    name = url.partition("://")[2].partition("/")[0]
    upstream = reading.upstreams.get(name)
    if upstream is not None and upstream.inside("server"):
        url = url.replace(name, upstream.inside("server")[0].value, 1)
    return Said({"external": {"url": url}}, request.location)


def _one_for_all(reading: Reading, asked: Sequence[Said]) -> Said | None:
    for other in asked[1:]:
        if other.value != asked[0].value and other.place is not None:
            reading.ledger.left(other.place, "a listener has one 'auth': that of its first location")
    return asked[0] if asked else None


def _close_routes(reading: Reading, door: Door, left: dict[int, list[Directive]]) -> None:
    """Answer what was guarded by something that has no key, where the rest of the listener was open."""
    for below, route in door.routes:
        if left.get(id(below)) and "pool" in route:
            reason = f"what guarded it has no key: its paths are answered with {CLOSED['status']}"
            reading.ledger.left(below.block.location, reason)
            kept = {
                key: value for key, value in route.items() if key in {"path", "path_exact", "host", "header"}
            }
            uses = reading.uses[route["pool"]]
            uses[:] = [use for use in uses if use.route is not route]
            route.clear()
            route.update({**kept, "respond": dict(CLOSED)})


def _networks(reading: Reading, levels: Sequence[Level]) -> Tree:
    """Return ``allow`` and ``deny``, where a listener can have them; else nothing, and they are left."""
    found = {tuple(one.all("allow", "deny")) for one in levels}
    lines = [line for lines in found for line in lines]
    if not lines:
        return {}
    allowed = [network(line.value) for line in lines if line.name == "allow" and line.value != "all"]
    closed = lines[-1].name == "deny" and lines[-1].value == "all"
    if "allow" in KEYS and len(found) == 1 and allowed and closed and len(allowed) == len(lines) - 1:
        reading.carry(lines)
        return {"allow": Said(allowed, lines[0].location)}
    denied = [network(line.value) for line in lines if line.name == "deny"]
    if "deny" in KEYS and len(found) == 1 and len(denied) == len(lines) and "all" not in denied:
        reading.carry(lines)
        return {"deny": Said(denied, lines[0].location)}
    reading.left(lines, "there is no key for these networks")
    return {}


def _closed(reading: Reading, left: Sequence[Directive]) -> Said:
    """Return a key that nobody has yet, where what guarded the old listener has no key."""
    place = left[0].location
    names = _clients(reading, Keys("Authorization", (("everybody", place),), place))
    reason = "until that is settled, its listener asks for the key of the client 'everybody'"
    reading.ledger.left(place, reason)
    return Said({"clients": names}, place)


def _with_upstream(reading: Reading, auth: Said, door: Door, levels: Sequence[Level]) -> Said:
    """Return ``auth`` with what servers see of the key: NGINX passes it on unless told otherwise."""
    header = str(auth.value.get("header", "Authorization")).lower()
    changed = [
        line
        for level in levels
        for line in level.all("proxy_set_header")
        if line.args and line.args[0].lower() == header
    ]
    own = [one for one in door.credentials if one[1].lower() == header]
    others = [one for one in door.credentials if one[1].lower() != header]
    _set_keys(reading, others)
    value = dict(auth.value)
    if own:
        line = own[0][2]
        reference = reading.draft.secret(
            "engine_key", "the key that servers ask for, without 'Bearer '", line.location
        )
        value["upstream"] = {"set": reference}
    elif not changed:
        value["upstream"] = "pass"
    for _, route in door.routes:
        headers = route.get("headers", {})
        kept = [one for one in headers.get("remove", ()) if one.lower() != header]
        if "remove" in headers and kept:
            headers["remove"] = kept
        elif "remove" in headers:
            del headers["remove"]
    return auth._replace(value=value)


def _own_keys(reading: Reading, door: Door) -> None:
    _set_keys(reading, door.credentials)


def _set_keys(reading: Reading, found: Sequence[tuple[dict[str, Any], str, Directive]]) -> None:
    """Set the key that servers ask for as a header, by reference."""
    made: dict[Any, str] = {}
    for route, name, line in found:
        if "pool" not in route:
            continue  # it was closed
        if line.location not in made:
            made[line.location] = reading.draft.secret(
                f"upstream_{name}", f"the whole value of {name}", line.location
            )
        route.setdefault("headers", {}).setdefault("set", {})[name] = made[line.location]
