"""Rules about routes: each leads somewhere, and each can be taken."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from lbgen.fleet.rules.rule import Finding, Rule, engine_of, routed_pools, routes_with_pools
from lbgen.model import Match
from lbgen.problems import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Listener, Pool, Route

_OWN_PREFIX = ("litellm", "http")
"""Engines that answer without `/v1` as well, or of which nothing is known."""
OFTEN_EMPTY = 0.2
"""A probability above which a share of a split without any client is no bad luck."""
_NOTHING = Match()
_LISTS = ("hosts", "methods", "paths", "paths_exact", "models")


def duplicate_route(fleet: Fleet) -> Iterator[Finding]:
    """Find routes with the same conditions."""
    for listener in fleet.listeners:
        seen: dict[object, Route] = {}
        for route in _written_routes(listener):
            first = seen.setdefault(_normal(route.match), route)
            if first is not route:
                what = "the same conditions" if route.match != _NOTHING else "no condition"
                message = f"'{first.name}' and '{route.name}' have {what}: this one is never taken"
                yield Finding(route.path, message)


def _written_routes(listener: Listener) -> tuple[Route, ...]:
    """Return the routes that stand in the file, and none that follow from the pools."""
    return tuple(route for route in listener.routes if isinstance(route.path[-1], int))


def _normal(match: Match) -> object:
    return tuple(tuple(sorted(set(getattr(match, name)))) for name in _LISTS), _rest(match)


def _rest(match: Match) -> object:
    headers = tuple(sorted((name.lower(), value) for name, value in match.headers.items()))
    fields = tuple(sorted(match.query.items())), tuple(sorted(match.form.items()))
    return match.prompt_over, match.prompt_under, match.max_tokens_over, match.websocket, headers, fields


def shadowed_route(fleet: Fleet) -> Iterator[Finding]:
    """Find routes whose every request an earlier one takes."""
    for listener in fleet.listeners:
        groups: dict[object, list[Route]] = {}
        for route in _written_routes(listener):
            groups.setdefault(_shape(route.match), []).append(route)
        for routes in groups.values():
            yield from _shadowed(routes)


def _shape(match: Match) -> object:
    """Return what two routes must have in common for the order written to decide between them."""
    present = tuple(name for name in _LISTS if getattr(match, name))
    return present, _rest(match)


def _shadowed(routes: list[Route]) -> Iterator[Finding]:
    wide: list[Route] = []
    for route in routes:
        for earlier in wide:
            if _covers(earlier.match, route.match) and _normal(earlier.match) != _normal(route.match):
                message = f"'{earlier.name}' stands first and takes every request that '{route.name}' would"
                yield Finding(route.path, message)
                break
        # Only patterns and lists can take more than themselves: all else would be a duplicate.
        if _is_wide(route.match):
            wide.append(route)


def _is_wide(match: Match) -> bool:
    lists: list[tuple[str, ...]] = [getattr(match, name) for name in _LISTS]
    return any(len(values) > 1 or "*" in values[0] for values in lists if values)


def _covers(wide: Match, narrow: Match) -> bool:
    for name in _LISTS:
        patterns, texts = getattr(wide, name), getattr(narrow, name)
        globs = name in {"hosts", "models"}
        if not all(any(_takes(pattern, text, globs=globs) for pattern in patterns) for text in texts):
            return False
    return True


def _takes(pattern: str, text: str, *, globs: bool) -> bool:
    return pattern == text or (globs and "[" not in pattern and fnmatchcase(text, pattern))


def unreached_pool(fleet: Fleet) -> Iterator[Finding]:
    """Find pools that no route leads to."""
    if not all(map(_written_routes, fleet.listeners)):
        return  # Routes that follow from the pools leave none out, or the file is in error: unrouted-pool.
    reached = {name for listener in fleet.listeners for name in routed_pools(listener)}
    for pool in fleet.pools:
        if pool.name not in reached and not pool.standby:
            yield Finding(pool.path, f"no route leads to the pool '{pool.name}'")


def reached_standby(fleet: Fleet) -> Iterator[Finding]:
    """Find standby pools that requests reach all the same."""
    reached = {name for listener in fleet.listeners for name in routed_pools(listener)}
    for pool in fleet.pools:
        if pool.standby and pool.name in reached:
            message = f"'{pool.name}' is on standby, which says that no route leads here, and one does"
            yield Finding((*pool.path, "standby"), message)


def model_in_two_pools(fleet: Fleet) -> Iterator[Finding]:
    """Find models that two pools list, where models alone decide."""
    if all(_written_routes(listener) for listener in fleet.listeners):
        return
    first: dict[str, Pool] = {}
    for pool in fleet.pools:
        if pool.standby:
            continue
        for index, model in enumerate(pool.models):
            other = first.setdefault(model, pool)
            if other is not pool:
                message = f"'{other.name}' and '{pool.name}' list '{model}': only the first gets its requests"
                yield Finding((*pool.path, "models", index), message)


def strip_version(fleet: Fleet) -> Iterator[Finding]:
    """Find `strip_prefix` that takes `/v1` away from servers that need it."""
    for route, pools in routes_with_pools(fleet):
        if not route.strip_prefix or route.add_prefix:
            continue
        strict = [pool for pool in pools if engine_of(pool).llm and pool.engine not in _OWN_PREFIX]
        path = next((path for path in route.match.paths if path.rstrip("/").endswith("/v1")), None)
        if strict and path:
            message = f"without '{path}' the servers of '{strict[0].name}' answer 404 to /chat/completions"
            yield Finding((*route.path, "strip_prefix"), message)


def coarse_split(fleet: Fleet) -> Iterator[Finding]:
    """Find splits by client where a pool may well get no client at all."""
    for listener in fleet.listeners:
        count = len(listener.auth.clients)
        for route in listener.routes:
            if route.split_by == "client" and count:
                yield from _often_empty(route, count)


def _often_empty(route: Route, count: int) -> Iterator[Finding]:
    whole = sum(route.split.values())
    who = "1 client" if count == 1 else f"{count} clients"
    for name, share in route.split.items():
        empty = (1 - share / whole) ** count if share else 0.0
        if empty > OFTEN_EMPTY:
            message = f"with {who} there is a chance of {empty:.0%} that '{name}' gets none of them"
            yield Finding((*route.path, "by"), message)


def dead_split(fleet: Fleet) -> Iterator[Finding]:
    """Find `when_down` that names the only pool which can be down."""
    for route, _ in routes_with_pools(fleet):
        shares = [name for name, share in route.split.items() if share]
        if route.when_down and shares == [route.when_down]:
            yield Finding((*route.path, "when_down"), f"'{route.when_down}' cannot stand in for itself")


def client_without_route(fleet: Fleet) -> Iterator[Finding]:
    """Find clients whose pools no listener that knows them can reach."""
    for client in fleet.clients:
        knowing = [listener for listener in fleet.listeners if client.name in listener.auth.clients]
        reached = {name for listener in knowing for name in routed_pools(listener)}
        lost = [index for index, name in enumerate(client.pools) if name not in reached]
        if knowing and lost:
            name = client.pools[lost[0]]
            message = f"'{client.name}' may use '{name}', but no listener that knows its key leads there"
            yield Finding((*client.path, "pools", lost[0]), message)


RULES = (
    Rule(
        "duplicate-route",
        Severity.ERROR,
        "two routes of a listener have the same conditions",
        "The first route gets every request, so what the second one sets (a pool, a limit, a "
        "priority) never takes effect.",
        "remove one, or add a condition that tells them apart",
        duplicate_route,
    ),
    Rule(
        "shadowed-route",
        Severity.WARNING,
        "an earlier route takes everything that a later one would",
        "More specific routes are tried first automatically, but among patterns of one kind the "
        'written order decides: with `model: "llama*"` before `model: llama-70b`, the second never '
        "matches.",
        "move it above the wider one",
        shadowed_route,
    ),
    Rule(
        "unreached-pool",
        Severity.WARNING,
        "no route leads to a pool",
        "No request can reach these servers, but they cost as much as busy ones.",
        "add a route, or write 'standby: true' if this is intended",
        unreached_pool,
    ),
    Rule(
        "reached-standby",
        Severity.WARNING,
        "a route leads to a pool with `standby: true`",
        "`standby` says that the pool is not in use, so somebody may switch its servers off.",
        "remove 'standby', or the route",
        reached_standby,
    ),
    Rule(
        "model-in-two-pools",
        Severity.WARNING,
        "two pools list the same model, and no routes say which is meant",
        "Without `routes` the model's name selects the pool, and each name selects one pool. The "
        "second pool gets no requests for that model, although its capacity was planned for them.",
        "list it once; or write routes, with a 'split' over both pools",
        model_in_two_pools,
    ),
    Rule(
        "strip-version",
        Severity.ERROR,
        "`strip_prefix` takes `/v1` away, and no `add_prefix` puts it back",
        "The paths of OpenAI's API begin with `/v1`. vLLM, SGLang and others answer 404 to "
        "`/chat/completions` (vllm#10172).",
        "remove 'strip_prefix', or write 'add_prefix: /v1'",
        strip_version,
    ),
    Rule(
        "dead-split",
        Severity.WARNING,
        "`when_down` names the only pool of its `split`",
        "When the pool is down, its requests are sent to the same pool: they get 503.",
        "name another pool, or remove the key",
        dead_split,
    ),
    Rule(
        "coarse-split",
        Severity.WARNING,
        "a split by client has so few clients that a share may stay empty",
        "A split by client assigns whole clients, by a hash of their names, instead of requests: with"
        " 5 clients, a share of 10 % gets no client in 59 of 100 cases, and otherwise a fifth of "
        "them.",
        "write 'by: request', or split by a header that has many values",
        coarse_split,
    ),
    Rule(
        "client-without-route",
        Severity.WARNING,
        "a client may use a pool that no listener leads it to",
        "The client is allowed to use the pool, but gets 404 because no route leads there.",
        "add a route to the pool, or remove it from the client's 'pools'",
        client_without_route,
    ),
)
