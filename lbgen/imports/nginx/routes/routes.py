"""``location`` blocks as routes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lbgen.imports.draft import CLOSED
from lbgen.imports.nginx.pools.requests import pool_values, timeouts
from lbgen.imports.nginx.reading import Use
from lbgen.imports.nginx.routes.destinations import Destination, destination
from lbgen.imports.nginx.routes.headers import headers, response_headers
from lbgen.imports.nginx.routes.splits import split_of
from lbgen.imports.paths import Match, Prefixes, location_match, passed_path, rewritten_path
from lbgen.imports.secrets import has_secret, is_credential_name

if TYPE_CHECKING:
    from lbgen.imports.nginx.listeners.servers import Door
    from lbgen.imports.nginx.reading import Reading
    from lbgen.readers.nginx import Directive, Level

_PASSES = ("proxy_pass", "grpc_pass")


def read_location(reading: Reading, level: Level, door: Door) -> list[dict[str, Any]]:
    """Return the routes that a location becomes."""
    block = level.block
    passes = [one for one in block.inside(*_PASSES) if one.args]
    if block.inside("internal"):
        return []
    match = location_match(block.args)
    if match is None or block.value.startswith("@"):
        return _without_paths(reading, block)
    proxied = _proxied(reading, level, match, passes[-1], door) if passes else None
    routes = proxied if passes else _answered(reading, level, match)
    if routes is None:
        return _closed(reading, block, match, "what it does has no key here")
    if match.note and any("path" in route or "path_exact" in route for route in routes):
        reading.ledger.differs(block.location, match.note)
    reading.ledger.carried(block.location)
    return routes


def _without_paths(reading: Reading, block: Directive) -> list[dict[str, Any]]:
    if block.value.startswith("@"):
        reading.ledger.left(block.location, "a named location is only used internally")
    else:
        reason = "there is no key for paths as regular expressions: other routes handle these requests"
        reading.ledger.left(block.location, reason)
    return []


def _closed(reading: Reading, block: Directive, match: Match, reason: str) -> list[dict[str, Any]]:
    """Return routes that answer that nothing is here yet."""
    if not match.prefixes and not match.exact:
        return []
    reading.ledger.left(block.location, f"{reason}: its paths are answered with {CLOSED['status']}")
    return [{**one, "respond": dict(CLOSED)} for one in match.conditions()]


def _proxied(
    reading: Reading, level: Level, match: Match, line: Directive, door: Door
) -> list[dict[str, Any]] | None:
    reading.ledger.carried(line.location)
    found = destination(reading, level, line)
    if found is None and (split := split_of(reading, level, line)):
        made = [
            _route(reading, level, one, split.destination, Prefixes(), door) for one in match.conditions()
        ]
        for route in made:
            use = reading.uses[split.destination.pool][-1]
            for pool in split.keys["split"]:
                if pool != split.destination.pool:
                    reading.uses.setdefault(pool, []).append(use._replace(route=route))
            route.update(split.keys)
        return made
    if found is None:
        return _by_map(reading, level, match, line, door)
    prefixes = _prefixes(reading, level, match, found, line)
    if prefixes is None:
        return None
    return [_route(reading, level, one, found, prefixes, door) for one in match.conditions()]


def _prefixes(
    reading: Reading, level: Level, match: Match, found: Destination, line: Directive
) -> Prefixes | None:
    rewrites = level.block.inside("rewrite")
    if not rewrites:
        prefixes = passed_path(match, found.uri)
        if prefixes is None:
            reading.ledger.left(line.location, f"the path {found.uri} in place of the request's has no key")
        return prefixes
    rewrite = rewrites[0]
    single = len(rewrites) == 1 and len(rewrite.args) == 3 and rewrite.args[2] == "break"
    prefixes = rewritten_path(match, *rewrite.args[:2]) if single else None
    reading.ledger.carried(rewrite.location)
    if prefixes is None:
        reading.left(rewrites, "paths can only be changed by removing or adding a prefix")
    return prefixes


def _route(  # noqa: PLR0913, PLR0917 - what a route is made of
    reading: Reading,
    level: Level,
    conditions: dict[str, object],
    found: Destination,
    prefixes: Prefixes,
    door: Door,
) -> dict[str, Any]:
    route: dict[str, Any] = {**conditions, "pool": found.pool}
    if prefixes.strip:
        route["strip_prefix"] = True
    if prefixes.add:
        route["add_prefix"] = prefixes.add
    head = headers(reading, level, found.called)
    changes = {"set": head.set, "remove": head.remove}
    changes = {key: value for key, value in changes.items() if value}
    if changes:
        route["headers"] = changes
    door.credentials.extend((route, *one) for one in head.credentials)
    if head.websocket is not None:
        door.websocket.append(head.websocket)
    protocol = "grpc" if found.scheme.startswith("grpc") else "proxy"
    answers = response_headers(reading, level, protocol)
    if answers:
        route["response_headers"] = answers
    use = Use(route, pool_values(reading, level, head, found.scheme), timeouts(reading, level, protocol))
    reading.uses.setdefault(found.pool, []).append(use)
    return route


def _by_map(
    reading: Reading, level: Level, match: Match, line: Directive, door: Door
) -> list[dict[str, Any]] | None:
    """Return routes by what a ``map`` chooses the pool from: a header or the host."""
    variable = re.fullmatch(r"(?:(?:https?|grpcs?)://)?(\$\w+)", line.value)
    block = reading.maps.get(variable[1]) if variable else None
    condition = _map_condition(block.args[0]) if block is not None else None
    if block is None or condition is None:
        reading.ledger.left(line.location, "the pool is selected by a variable for which there is no key")
        return None
    reading.ledger.carried(block.location)
    routes: list[dict[str, Any]] = []
    default: list[dict[str, Any]] = []
    for entry in block.block or ():
        scheme = line.value.partition("://")[0] + "://" if "://" in line.value else ""
        passed = line._replace(args=(scheme + entry.value,))
        found = destination(reading, level, passed) if entry.value else None
        if found is None or entry.name.startswith(("~", "*", ".")):
            reading.ledger.left(entry.location, "there is no key for entries that are not plain text")
            continue
        reading.ledger.carried(entry.location)
        own = {} if entry.name == "default" else condition(entry.name.removeprefix("\\"))
        made = [_route(reading, level, {**one, **own}, found, Prefixes(), door) for one in match.conditions()]
        (default if entry.name == "default" else routes).extend(made)
    return routes + default or None


def _map_condition(source: str) -> Any:  # noqa: ANN401 - from an entry to a condition, or None
    from lbgen.imports.nginx.pools.strategies import header_name  # noqa: PLC0415

    if source in {"$host", "$http_host"}:
        return lambda text: {"host": text}
    if source.startswith("$http_") and not is_credential_name(source):
        return lambda text: {"header": {header_name(source.removeprefix("$http_")): text}}
    return None


def _answered(reading: Reading, level: Level, match: Match) -> list[dict[str, Any]] | None:
    """Return routes with a fixed answer."""
    block = level.block
    returns, denies = block.inside("return"), block.inside("deny")
    if any(one.value == "all" for one in denies) and not block.inside("allow"):
        reading.carry(denies)
        return [{**one, "respond": {"status": 403}} for one in match.conditions()]
    others = {one.name for one in block.block or ()} - _BESIDE_RETURN
    if len(returns) != 1 or others:
        return None
    answer = _respond(reading, level, returns[0])
    if answer is None:
        return None
    reading.carry(one for one in block.block or () if one.name in _BESIDE_RETURN)
    return [{**one, "respond": answer} for one in match.conditions()]


_BESIDE_RETURN = {"return", "add_header", "default_type", "access_log", "log_not_found", "internal"}


def _respond(reading: Reading, level: Level, line: Directive) -> dict[str, Any] | None:
    status = line.value
    body = line.args[1] if len(line.args) > 1 else ""
    if not status.isdecimal() or not 200 <= int(status) <= 599 or "$" in body or status.startswith("30"):
        reading.ledger.left(line.location, "there is no key for redirects and responses with variables")
        return None
    if has_secret(body):
        reading.ledger.left(
            line.location, ("the response may contain a secret, which a fleet file must not contain")
        )
        return None
    answer: dict[str, Any] = {"status": int(status)}
    if body:
        answer["body"] = body.rstrip("\n")
        kind = _content_type(level)
        if kind and kind != "text/plain":
            answer["content_type"] = kind
    return answer


def _content_type(level: Level) -> str:
    for line in level.block.inside("add_header"):
        if line.value.lower() == "content-type" and len(line.args) > 1:
            return line.args[1]
    default = level.first("default_type")
    return default.value if default else ""
