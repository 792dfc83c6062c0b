"""Prefixes that HAProxy learns: a stick table says which server is the home of each.

The least busy server becomes a prefix's home. What comes later goes there while that has less than its
share of all requests in flight. What is over goes to a second home, found and bounded in the same way, and
what is too much for both to the least busy server. The home never moves while it lives: a table whose entries
move with every overflow sends prefixes to servers that lack them, whose caches then lose others, until every
server is busy with prompts that some cache had a minute ago.
Another table counts by server what is in flight there; `srv_conn` would need a rule for each server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.model import State
from lbgen.targets.haproxy.admission import BUILT_IN_COUNTERS, counters
from lbgen.targets.haproxy.bodies import prefix_variable
from lbgen.targets.haproxy.features import has
from lbgen.targets.haproxy.views import Section, syntax
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.model import Fleet, Pool, Server

PEERS = "lbgen"
"""The section of the balancers that tell each other what they learned."""
_FLOOR = 2
"""Requests in flight that every server may have, however few there are in all."""
_TABLE = "stick-table type string len 128 size 100k expire 30m"
_OVER = "{ var(txn.lb_over) -m found }"
_ASTRAY = "{ var(txn.lb_astray) -m found }"


def sticks(fleet: Fleet, pool: Pool) -> bool:
    """Tell whether prefixes are learned; otherwise they are hashed.

    What one balancer learns all have to know, servers have to be alike, since the bound on their load is
    the same for all, and a request needs one counter more than its limits take.
    """
    if pool.strategy.name != "prefix":
        return False
    shared = fleet.balancers.instances == 1 or fleet.balancers.own is not None
    alike = len({(server.weight, pool.cap(server)) for server in _serving(pool)}) < 2
    version = fleet.target("haproxy").version
    return shared and alike and (has(version, "stick_counters") or counters(fleet) < BUILT_IN_COUNTERS)


def counters_with_loads(fleet: Fleet) -> int:
    """Return how many counters a request needs at most."""
    return counters(fleet) + any(sticks(fleet, pool) for pool in fleet.pools)


def learned_tables(fleet: Fleet) -> Iterator[Section]:
    """Yield the tables of second homes, and those that count what each server has in flight."""
    for pool in fleet.pools:
        if sticks(fleet, pool):
            yield Section(Syntax(f"backend {_second(pool)} from lbgen"), syntax(_table(fleet)))
            # Far more than a backend can have servers; counts last as long as the requests.
            counted = "stick-table type integer size 10k expire 1h store conn_cur"
            yield Section(Syntax(f"backend {_loads(pool)} from lbgen"), syntax(counted))


def learned_lines(fleet: Fleet, pool: Pool) -> Iterator[str]:
    """Yield the lines of a backend by which it remembers."""
    yield "balance leastconn"
    yield _table(fleet)
    prefix, second = f"var({prefix_variable(pool)})", f"table {_second(pool)}"
    yield f"stick match {prefix} unless {_OVER}"
    yield f"stick store-request {prefix} unless {_OVER}"
    yield f"stick match {prefix} {second} if {_OVER} !{_ASTRAY}"
    yield f"stick store-request {prefix} {second} if {_OVER}"


def learned_rules(fleet: Fleet, pool: Pool, ids: Mapping[str, int]) -> Iterator[str]:
    """Yield the rules that find a prefix's homes, and whether one has its share of requests in flight."""
    yield from _share(pool)
    yield from _look(fleet, pool, ids, "home")
    yield f"http-request set-var(txn.lb_over) bool(true) if {_known('home')} !{_tracked(fleet)}"
    yield from _look(fleet, pool, ids, "second")
    yield f"http-request set-var(txn.lb_astray) bool(true) if {_OVER} !{_tracked(fleet)}"
    # Whoever has no home here is counted from the answer's beginning on, when the server is known.
    yield f"http-response track-sc{counters(fleet)} srv_id table {_loads(pool)}"


def _share(pool: Pool) -> Iterator[str]:
    """Yield the rules that reckon how many requests a server may have in flight."""
    yield f"http-request set-var(txn.lb_alive) nbsrv({pool.name}),mul(100)"
    factor = round(float(str(pool.strategy.parameters.get("load_factor", 1.25))) * 100)
    share = f"be_conn({pool.name}),mul({factor}),add(txn.lb_alive),sub(1),div(txn.lb_alive)"
    yield f"http-request set-var(txn.lb_share) {share}"
    yield f"http-request set-var(txn.lb_share) int({_FLOOR}) if {{ var(txn.lb_share) -m int lt {_FLOOR} }}"
    cap = next((pool.cap(server) for server in _serving(pool)), pool.max_in_flight)
    if cap:
        # When all are full, waiting at home is better than another server's cache.
        above = f"{{ var(txn.lb_share) -m int gt {cap} }} {{ be_conn_free({pool.name}) gt 0 }}"
        yield f"http-request set-var(txn.lb_share) int({cap}) if {above}"


def _look(fleet: Fleet, pool: Pool, ids: Mapping[str, int], name: str) -> Iterator[str]:
    """Yield the rules that look for a home or a second one, and count the request there if there is room."""
    table, when = (pool.name, "") if name == "home" else (_second(pool), f" if {_OVER}")
    known, home = _known(name), f"var(txn.lb_{name})"
    yield f"http-request set-{home} var({prefix_variable(pool)}),table_server_id({table}){when}"
    # 0 is an unknown prefix. A server that is being drained would get what is bound to it until the end.
    homeless = [0, *(ids[server.name] for server in pool.servers if server.state is State.DRAIN)]
    for number in homeless:
        yield f"http-request unset-{home} if {known} {{ {home} -m int {number} }}"
    # Looked at and counted in one rule: 3.2 lets others have their turn after 50 rules, and of a hundred
    # requests at once 70 saw the same room.
    room = f"{{ {home},table_conn_cur({_loads(pool)}),sub(txn.lb_share) lt 0 }}"
    yield f"http-request track-sc{counters(fleet)} {home} table {_loads(pool)} if {known} {room}"


def _known(name: str) -> str:
    return f"{{ var(txn.lb_{name}) -m found }}"


def _tracked(fleet: Fleet) -> str:
    return f"{{ sc_tracked({counters(fleet)}) }}"


def _table(fleet: Fleet) -> str:
    return f"{_TABLE} peers {PEERS}" if fleet.balancers.own else _TABLE


def _second(pool: Pool) -> str:
    return f"second:{pool.name}"


def _serving(pool: Pool) -> tuple[Server, ...]:
    return tuple(server for server in pool.servers if server.weight and server.state is State.UP)


def _loads(pool: Pool) -> str:
    return f"load:{pool.name}"
