"""Limits on requests and on requests in flight: stick tables.

A rate with a burst is counted over the time in which the rate allows the burst and one more:
600/m with a burst of 50 is 51 in 5.1 s. What is refused is not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.targets.haproxy.language.quoting import quote
from lbgen.targets.haproxy.language.words import duration, refuse
from lbgen.targets.haproxy.views import Section, syntax
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Listener
    from lbgen.targets.haproxy.language.rules import Rules
    from lbgen.units import Rate

_SHORTEST = 100
"""Milliseconds; HAProxy counts in milliseconds, and what is shorter would be rough."""
_KEYS = {"client": "var(txn.lb_client)", "ip": "src", "total": "int(1)"}
_TYPES = {"client": "string len 64 size 10k", "ip": "ipv6 size 100k", "total": "integer size 10"}
BUILT_IN_COUNTERS = 3
"""How many tables a request can be counted in without `tune.stick-counters` (2.8)."""


class Bound(NamedTuple):
    """One limit as HAProxy counts it."""

    table: str
    per: str
    counter: int
    only: str
    """The one client that it is for; empty: all."""
    most: int | None
    """Requests in `period` milliseconds."""
    period: int
    concurrent: int | None


def bounds(fleet: Fleet, listener: Listener) -> tuple[Bound, ...]:
    """Return a listener's limits and those of its clients; a client is counted over all listeners."""
    found = []
    for number, limit in enumerate(listener.limits):
        most, period = _window(limit.rate, limit.burst)
        table = f"limit:{listener.name}:{number + 1}"
        found.append(Bound(table, limit.per, number, "", most, period, limit.concurrent))
    for client in fleet.clients:
        if client.name in listener.auth.clients and (client.rate or client.max_in_flight):
            most, period = _window(client.rate, client.burst)
            # One counter for all: a request has one client.
            number = len(listener.limits)
            table = f"client:{client.name}"
            found.append(Bound(table, "client", number, client.name, most, period, client.max_in_flight))
    return tuple(found)


def counters(fleet: Fleet) -> int:
    """Return how many counters a request needs at most."""
    return max(
        (bound.counter + 1 for listener in fleet.listeners for bound in bounds(fleet, listener)), default=0
    )


def _window(rate: Rate | None, burst: int) -> tuple[int | None, int]:
    if rate is None:
        return None, 0
    most = burst + 1
    period = most * rate.seconds * 1_000 // rate.requests
    if period < _SHORTEST:
        most = max(1, rate.requests * _SHORTEST // (rate.seconds * 1_000))
        period = _SHORTEST
    return most, period


def tables(fleet: Fleet) -> tuple[Section, ...]:
    """Return a section with a stick table for each limit."""
    found = {bound.table: bound for listener in fleet.listeners for bound in bounds(fleet, listener)}
    return tuple(
        Section(Syntax(f"backend {name} from lbgen"), syntax(_table(bound))) for name, bound in found.items()
    )


def _table(bound: Bound) -> str:
    stored = [f"gpc0,gpc0_rate({duration(bound.period)})"] if bound.most else []
    if bound.concurrent:
        stored.append("conn_cur")
    expire = max(2 * bound.period, 10_000)
    return f"stick-table type {_TYPES[bound.per]} expire {duration(expire)} store {','.join(stored)}"


def address_limit_rules(rules: Rules, listener: Listener) -> None:
    """Add the limits per address, which come before keys are asked for: who guesses keys is counted."""
    _limit(rules, [bound for bound in bounds(rules.made.fleet, listener) if bound.per == "ip"])


def limit_rules(rules: Rules, listener: Listener) -> None:
    """Add the other limits, which only those count in whom the listener lets in."""
    _limit(rules, [bound for bound in bounds(rules.made.fleet, listener) if bound.per != "ip"])


def _limit(rules: Rules, found: list[Bound]) -> None:
    """Add the rules that count, and refuse what is too much."""
    for bound in found:
        track = f"http-request track-sc{bound.counter} {_KEYS[bound.per]} table {bound.table}"
        rules.add(track, *_whose(bound))
    for bound in found:
        if bound.most:
            rate = f"{{ sc_gpc0_rate({bound.counter},{bound.table}) ge {bound.most} }}"
            rules.add(refuse("rate_limited"), *_whose(bound), rate)
        if bound.concurrent:
            busy = f"{{ sc_conn_cur({bound.counter},{bound.table}) gt {bound.concurrent} }}"
            rules.add(refuse("rate_limited"), *_whose(bound), busy)
    for counter, whose in _counted(found):
        rules.add(f"http-request sc-inc-gpc0({counter})", *whose)


def _counted(found: list[Bound]) -> Iterator[tuple[int, tuple[str, ...]]]:
    for bound in found:
        if bound.most:
            yield bound.counter, _whose(bound)


def _whose(bound: Bound) -> tuple[str, ...]:
    return (f"{{ var(txn.lb_client) -m str -- {quote(bound.only)} }}",) if bound.only else ()
