"""Routes: which of them a request takes, what that changes, and to which backend it leads.

The number of the route stands in `txn.lb_route`: the first that fits, from the most specific on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.targets.haproxy.backends import numbered_routes
from lbgen.targets.haproxy.frame import websocket
from lbgen.targets.haproxy.paths import rewrite_rule
from lbgen.targets.haproxy.quoting import text_word
from lbgen.targets.haproxy.words import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener, Match, Respond, Route
    from lbgen.targets.haproxy.assembly import Assembly
    from lbgen.targets.haproxy.rules import Rules

_UNDECIDED = "!{ var(txn.lb_route) -m found }"


class Candidate(NamedTuple):
    """A route by one of its paths; smaller tuples go first."""

    prefix: int
    """0 for an exact path, 1 for a prefix."""
    length: int
    conditions: int
    order: int
    path: str


def route_rules(rules: Rules, listener: Listener) -> None:
    """Add the choice of a route, what the routes do, and the answer where none fits."""
    numbers = {route.path: number for number, route in numbered_routes(rules.made)}
    open_end = True
    for candidate in candidates(listener):
        route = listener.routes[candidate.order]
        conditions = (*_path(rules, candidate), *_others(rules, route.match))
        rules.add(f"http-request set-var(txn.lb_route) int({numbers[route.path]})", _UNDECIDED, *conditions)
        if not conditions:
            open_end = False
            break
    if open_end:
        rules.add(refuse("not_found"), _UNDECIDED)
    for route in listener.routes:
        _effects(rules, route, taken(numbers[route.path]))


def taken(number: int) -> str:
    """Return the condition that a request takes this route."""
    return f"{{ var(txn.lb_route) -m int {number} }}"


def candidates(listener: Listener) -> list[Candidate]:
    """Return every route by every path: exact ones, then longer ones, then those with more conditions."""
    found = []
    for order, route in enumerate(listener.routes):
        match = route.match
        more = -count(match)
        found += [Candidate(0, 0, more, order, path) for path in match.paths_exact]
        prefixes = [path.rstrip("/") for path in match.paths]
        if not prefixes and not match.paths_exact:
            prefixes = [""]
        found += [Candidate(1, -len(path), more, order, path) for path in prefixes]
    return sorted(found)


def count(match: Match) -> int:
    """Return how many conditions a route has beside its path."""
    single = (
        match.hosts,
        match.methods,
        match.models,
        match.prompt_over is not None,
        match.prompt_under is not None,
        match.max_tokens_over is not None,
        match.websocket is not None,
    )
    return sum(map(bool, single)) + len(match.headers)


def _path(rules: Rules, candidate: Candidate) -> Iterator[str]:
    if not candidate.prefix:
        yield rules.acl(("var(txn.lb_path) -m str", (candidate.path,)))
    elif candidate.path:
        whole = ("var(txn.lb_path) -m str", (candidate.path,))
        yield rules.acl(whole, ("var(txn.lb_path) -m beg", (f"{candidate.path}/",)))


def _others(rules: Rules, match: Match) -> Iterator[str]:
    if match.hosts:
        exact = tuple(host for host in match.hosts if not host.startswith("*."))
        wild = tuple(host[1:] for host in match.hosts if host.startswith("*."))
        tests = (("str", exact), ("end", wild))
        yield rules.acl(*((f"req.hdr(host),host_only -m {how} -i", hosts) for how, hosts in tests if hosts))
    if match.methods:
        yield rules.acl(("method -m str", match.methods))
    for name, value in match.headers.items():
        yield rules.acl((f"req.fhdr({name}) -m str", (value,)))
    if match.websocket is not None:
        yield ("" if match.websocket else "!") + websocket(rules)


def _effects(rules: Rules, route: Route, condition: str) -> None:
    if route.respond:
        rules.add(f"http-request return {_answer(route.respond)}", condition)
    if route.strip_prefix or route.add_prefix:
        rules.add(rewrite_rule(route), condition)
    if len(route.split) > 1:
        total = sum(route.split.values())
        rules.add(f"http-request set-var(txn.lb_share) rand({total})", condition)
        key = _split_key(route)
        if key:
            # Requests without the key keep their random share, instead of all taking one way.
            rules.add(f"http-request set-var(txn.lb_share) {key},xxh32(1),mod({total})", condition)


def _split_key(route: Route) -> str:
    if route.split_by == "client":
        return "var(txn.lb_who)"
    if route.split_by.startswith("header:"):
        return f"req.fhdr({route.split_by.removeprefix('header:')})"
    return ""


def split_rules(rules: Rules, listener: Listener) -> None:
    """Add the variable that tells clients apart, by name or by address."""
    if any(route.split_by == "client" for route in listener.routes if route.split):
        who = "var(txn.lb_client)" if listener.auth.clients else "src"
        rules.add(f"http-request set-var-fmt(txn.lb_who) %[{who}]")


def _answer(respond: Respond) -> str:
    words = f"status {respond.status} content-type {text_word(respond.content_type)}"
    return f"{words} string {text_word(respond.body)}"


def choices(made: Assembly, listeners: tuple[Listener, ...]) -> Iterator[str]:
    """Yield `use_backend` for each route that leads to a pool."""
    own = {route.path for listener in listeners for route in listener.routes}
    for number, route in numbered_routes(made):
        if route.path in own:
            yield from _to_pools(route, taken(number))


def _to_pools(route: Route, condition: str) -> Iterator[str]:
    shares = route.split or ({route.pool: 1} if route.pool else {})
    end = 0
    for position, (pool, share) in enumerate(shares.items(), 1):
        end += share
        words = [condition]
        if position < len(shares):
            words.append(f"{{ var(txn.lb_share) -m int lt {end} }}")
        when = " ".join(words)
        if route.when_down and route.when_down != pool:
            yield f"use_backend {route.when_down} if {when} {{ nbsrv({pool}) eq 0 }}"
        yield f"use_backend {pool} if {when}"
