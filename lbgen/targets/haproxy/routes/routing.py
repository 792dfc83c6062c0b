"""Routes: which of them a request takes, what that changes, and to which backend it leads.

The number of the route stands in `txn.lb_route`: the first that fits, from the most specific on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.paths import OBJECTS, candidates, escape_regex
from lbgen.targets.common.query import anything, needless, parameter, twice
from lbgen.targets.haproxy.inspection.bodies import (
    HIDDEN,
    Reader,
    hidden_rules,
    logs_text,
    pool_reads,
    prompt_rules,
    variable,
)
from lbgen.targets.haproxy.language.quoting import quote, text_word
from lbgen.targets.haproxy.language.words import WEBSOCKET, header_sample, refuse
from lbgen.targets.haproxy.pools.priorities import priority_rules
from lbgen.targets.haproxy.routes.paths import path_regex, prefix_rules, rewrite_rule
from lbgen.targets.haproxy.routes.responses import fixed_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener, Match, Respond, Route
    from lbgen.targets.common.paths import Candidate
    from lbgen.targets.haproxy.assembly import Assembly
    from lbgen.targets.haproxy.language.rules import Rules

_UNDECIDED = "!{ var(txn.lb_route) -m found }"


def route_rules(rules: Rules, listener: Listener) -> None:
    """Add the choice of a route, what the routes do, and the answer where none fits."""
    numbers = _numbers(rules.made, listener)
    _query_refusals(rules, listener)
    reader = Reader(rules, listener)
    for candidate in candidates(listener):
        match = listener.routes[candidate.order].match
        conditions = (*_path(rules, candidate), *_others(rules, match))
        if match.reads_body:
            reader.read(_UNDECIDED, *conditions)
        if match.reads_text:
            # Never the wrong pool: what cannot be read is refused, whatever would fit after this.
            rules.add("http-request set-var(txn.lb_route) int(0)", _UNDECIDED, *conditions, HIDDEN)
        inside = (*conditions, *_inside(rules, match))
        rules.add(f"http-request set-var(txn.lb_route) int({numbers[candidate.order]})", _UNDECIDED, *inside)
        if not inside:
            break
    if any(route.match.reads_text for route in listener.routes):
        hidden_rules(rules, taken(0))
    _answer_no_route(rules, listener)
    readers = [number for order, number in numbers.items() if _reads_late(rules.made, listener.routes[order])]
    if readers:
        reader.read(f"{{ var(txn.lb_route) -m int {' '.join(map(str, readers))} }}")
    prompt_rules(rules, listener)
    conditions_of = {order: taken(number) for order, number in numbers.items()}
    for order, route in enumerate(listener.routes):
        _effects(rules, route, conditions_of[order])
    priority_rules(rules, listener, conditions_of)
    _close_tunnels(rules, listener, numbers)


def _close_tunnels(rules: Rules, listener: Listener, numbers: dict[int, int]) -> None:
    """Make plain requests of the handshakes that take a route which passes none on."""
    open_ones = [number for order, number in numbers.items() if listener.tunnels(listener.routes[order])]
    if open_ones and len(open_ones) < len(numbers):
        rules.add("http-request set-var(txn.lb_plain) bool(true)", f"!{taken(*open_ones)}")
        for name in ("Connection", "Upgrade"):
            rules.add(f"http-request del-header {name}", "{ var(txn.lb_plain) -m found }")


def _numbers(made: Assembly, listener: Listener) -> dict[int, int]:
    """Return a route's order in its listener -> its number among all."""
    before = 0
    for other in made.fleet.listeners:
        if other is listener:
            break
        before += len(other.routes)
    return {order: before + order + 1 for order in range(len(listener.routes))}


def _reads_late(made: Assembly, route: Route) -> bool:
    """Tell whether a body that nothing was read of before the route was chosen has to be read then."""
    early = route.match.reads_body
    late = logs_text(made.fleet) or any(pool_reads(made.fleet.pool(name)) for name in route.pools)
    return not early and bool(route.pools) and late


def _answer_no_route(rules: Rules, listener: Listener) -> None:
    if any(not any(route.match) for route in listener.routes):
        return
    if any(route.match.models for route in listener.routes):
        rules.add(refuse("model_not_found"), _UNDECIDED, "{ var(txn.lb_model) -m len gt 0 }")
        rules.add(refuse("made_elsewhere"), _UNDECIDED, rules.acl(*_kept()))
    rules.add(refuse("not_found"), _UNDECIDED)


def _kept() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield tests for paths of objects that one server keeps."""
    exact = tuple(path for path in OBJECTS if not path.endswith("/"))
    yield "var(txn.lb_decoded) -m str", exact
    yield "var(txn.lb_decoded) -m beg", tuple(path if path.endswith("/") else f"{path}/" for path in OBJECTS)


def _query_refusals(rules: Rules, listener: Listener) -> None:
    """Refuse parameters that decide and are there twice, or spelled as no client does."""
    for name in dict.fromkeys(name for route in listener.routes for name in route.match.query):
        rules.add(refuse("bad_request"), rules.acl(("query -m reg", (twice(name), needless(name)))))


def taken(*numbers: int) -> str:
    """Return the condition that a request takes one of these routes."""
    return f"{{ var(txn.lb_route) -m int {' '.join(map(str, numbers))} }}"


def _path(rules: Rules, candidate: Candidate) -> Iterator[str]:
    if not candidate.prefix:
        yield rules.acl(("var(txn.lb_decoded) -m str", (candidate.path,)))
    elif candidate.path:
        whole = ("var(txn.lb_decoded) -m str", (candidate.path,))
        yield rules.acl(whole, ("var(txn.lb_decoded) -m beg", (f"{candidate.path}/",)))


def _others(rules: Rules, match: Match) -> Iterator[str]:
    if match.hosts:
        exact = tuple(host for host in match.hosts if not host.startswith("*."))
        wild = tuple(host[1:] for host in match.hosts if host.startswith("*."))
        tests = (("str", exact), ("end", wild))
        yield rules.acl(
            *((f"req.fhdr(host),host_only,rtrim(.) -m {how} -i", hosts) for how, hosts in tests if hosts)
        )
    if match.methods:
        yield rules.acl(("method -m str", match.methods))
    for name, value in match.headers.items():
        yield rules.acl((f"{header_sample(name)} -m str", (value,)))
    for name, value in match.query.items():
        yield rules.acl(("query -m reg", (parameter(name, value),)))
    if match.websocket is not None:
        yield ("" if match.websocket else "!") + WEBSOCKET


def _inside(rules: Rules, match: Match) -> Iterator[str]:
    """Yield the conditions on the body."""
    if match.models:
        tests = (
            ("str", tuple(name for name in match.models if not _is_glob(name))),
            ("reg", tuple(f"^{_glob_regex(name)}$" for name in match.models if _is_glob(name))),
        )
        yield rules.acl(*((f"var(txn.lb_model) -m {how}", names) for how, names in tests if names))
    for name, value in match.form.items():
        yield rules.acl((f"var({variable('form', name)}) -m reg", (f"^{_glob_regex(value)}$",)))
    if match.prompt_over is not None:
        yield f"{{ var(txn.lb_size) -m int gt {match.prompt_over} }}"
    if match.prompt_under is not None:
        yield f"{{ var(txn.lb_size) -m int lt {match.prompt_under} }}"
    if match.max_tokens_over is not None:
        yield f"{{ var(txn.lb_tokens) -m int gt {match.max_tokens_over} }}"


def _is_glob(name: str) -> bool:
    return "*" in name or "?" in name


def _glob_regex(name: str) -> str:
    # A character of UTF-8 may have several bytes, and HAProxy's expressions see bytes.
    if anything(name):
        return ".+"
    special = {"*": ".*", "?": r"[^\x80-\xbf][\x80-\xbf]*"}
    return "".join(special.get(character) or escape_regex(character) for character in name)


def _effects(rules: Rules, route: Route, condition: str) -> None:
    if route.respond:
        fixed_rules(rules, route.response_headers, condition)
        for body, clients in route.respond.instead.items():
            asking = rules.acl(("var(txn.lb_client) -m str", clients))
            rules.add(f"http-request return {_answer(route.respond, body)}", condition, asking)
        rules.add(f"http-request return {_answer(route.respond, route.respond.body)}", condition)
    if route.strip_prefix or route.add_prefix:
        # A path that fits only after decoding: no server should see it half-stripped.
        pattern = f"!{{ path -m reg {quote(path_regex(route))} }}"
        rules.add(refuse("not_found"), condition, pattern)
        for rule in prefix_rules(route):
            rules.add(rule, condition)
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
        return header_sample(route.split_by.removeprefix("header:"))
    return ""


def split_rules(rules: Rules, listener: Listener) -> None:
    """Add the variable that tells clients apart, by name or by address."""
    if any(route.split_by == "client" for route in listener.routes if route.split):
        who = "var(txn.lb_client)" if listener.auth.clients else "src"
        rules.add(f"http-request set-var-fmt(txn.lb_who) %[{who}]")


def _answer(respond: Respond, body: str) -> str:
    if not body:
        # Seen on 2.6: an empty string is an error, and a type without a body a warning.
        return f"status {respond.status}"
    words = f"status {respond.status} content-type {text_word(respond.content_type)}"
    return f"{words} string {text_word(body)}"


def choices(made: Assembly, listeners: tuple[Listener, ...]) -> Iterator[str]:
    """Yield `use_backend` for each route that leads to a pool."""
    for listener in listeners:
        for order, number in _numbers(made, listener).items():
            yield from _to_pools(listener.routes[order], taken(number))


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
