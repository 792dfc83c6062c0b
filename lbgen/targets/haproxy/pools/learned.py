"""Homes that HAProxy learns: a stick table says where a conversation is, another where a prompt is.

Who has a conversation goes to its home. Who begins one goes to the home of its system prompt, else to the
least busy server, which becomes the home. Three bounds, all on requests in flight above the average, keep a
home from being overrun: a prompt that alone has one more than that is soon in every cache, and everybody's;
at the excess a server takes no more prompts, and at twice as much it lets go of conversations, whose history
costs more to compute elsewhere. `srv_conn` takes no variable: there is a rule for each server.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from lbgen.model import State
from lbgen.strategies.prefix import POPULAR_ABOVE, PrefixParameters, prefix_of
from lbgen.targets.haproxy.features import has
from lbgen.targets.haproxy.guards.admission import BUILT_IN_COUNTERS, counters
from lbgen.targets.haproxy.inspection.bodies import read_variable
from lbgen.targets.haproxy.language.quoting import quote
from lbgen.targets.haproxy.language.words import header_sample
from lbgen.targets.haproxy.views import Section, syntax
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.model import Fleet, Pool

PEERS = "lbgen"
"""The section of the balancers that tell each other what they learned."""
_TABLE = f"stick-table type string len 48 size 100k expire 30m peers {PEERS}"
"""48: a digest in hexadecimal. 30 min: about as long as a busy server's cache keeps what nobody uses."""
_CONVERSATION, _PROMPT, _HOME, _LOAD = "txn.lb_home_of", "txn.lb_prompt", "txn.lb_home", "txn.lb_load"
_DECISION = "txn.lb_decision"
DECISIONS = ("home", "prompt", "least", "moved")
"""Why a request goes where it does."""
HASHED = _CONVERSATION
"""What is hashed where nothing is learned."""


_SHARE = 150
"""Percent of a server's share of all requests that make a prompt everybody's."""


_ENOUGH = 12
"""Requests in a minute from which a prompt's share says something."""


class _Place(NamedTuple):
    """A server that can be a home."""

    name: str
    number: int
    """Its id, as stick tables know it."""
    weight: int
    cap: int | None


def sticks(fleet: Fleet, pool: Pool) -> bool:
    """Tell whether homes are learned; otherwise requests are hashed.

    What one balancer learns all have to know.
    """
    shared = fleet.balancers.instances == 1 or fleet.balancers.own is not None
    return prefix_of(pool) is not None and shared


def counters_with_homes(fleet: Fleet) -> int:
    """Return how many counters a request needs at most."""
    return counters(fleet) + max((len(_counted(fleet, pool)) for pool in fleet.pools), default=0)


def _counted(fleet: Fleet, pool: Pool) -> Mapping[str, int]:
    """Return what is counted of a pool's requests, the most important first, and by which counter.

    What each prompt has in flight, the requests of all prompts, what each conversation has in flight. Where
    prompts alone decide (`key: system_prompt`) a popular one stays at its home while that has room. Last,
    for people alone, the decisions.
    """
    if not sticks(fleet, pool):
        return {}
    by = _parameters(pool)
    wanted = (
        *(("prompt",) if by.prompt else ()),
        *(("all",) if by.prompt and by.by_conversation else ()),
        *(("conversation",) if by.by_conversation else ()),
        *(("decision",) if fleet.metrics else ()),
    )
    first = counters(fleet)
    free = (
        len(wanted) if has(fleet.target("haproxy").version, "stick_counters") else BUILT_IN_COUNTERS - first
    )
    return {name: first + number for number, name in enumerate(wanted[: max(0, free)])}


def learned_tables(fleet: Fleet) -> Iterator[Section]:
    """Yield the tables of prompts."""
    for pool in fleet.pools:
        if sticks(fleet, pool) and _parameters(pool).prompt:
            counted = " store conn_cur,http_req_rate(1m)" if "prompt" in _counted(fleet, pool) else ""
            table = syntax(f"{_TABLE}{counted}")
            yield Section(Syntax(f"backend {_prompts(pool)} from lbgen"), table)
        if counts_decisions(fleet, pool):
            table = syntax("stick-table type string len 8 size 16 store http_req_cnt")
            yield Section(Syntax(f"backend {decisions_table(pool)} from lbgen"), table)


def counts_decisions(fleet: Fleet, pool: Pool) -> bool:
    """Tell whether a counter is left for the decisions about a pool's requests."""
    return "decision" in _counted(fleet, pool)


def decisions_table(pool: Pool) -> str:
    """Return the table that counts them. Not shared with peers, which would put their counts in its place."""
    return f"decisions:{pool.name}"


def learned_lines(fleet: Fleet, pool: Pool) -> Iterator[str]:
    """Yield the lines of a backend by which it remembers."""
    yield "balance leastconn"
    by = _parameters(pool)
    if by.by_conversation:
        yield _TABLE + (" store conn_cur" if "conversation" in _counted(fleet, pool) else "")
        yield f"stick match var({_CONVERSATION}) if {_decided('home')}"
        yield f"stick store-request var({_CONVERSATION}) unless {_decided('home')}"
    if by.prompt:
        prompts = f"table {_prompts(pool)}"
        yield f"stick match var({_PROMPT}) {prompts} if {_decided('prompt')}"
        # A home that was passed over moves. One whose prompt is everybody's would move all the time.
        yield f"stick store-request var({_PROMPT}) {prompts} if {_decided('least')} !{_POPULAR}"


def learned_rules(fleet: Fleet, pool: Pool, ids: Mapping[str, int]) -> Iterator[str]:
    """Yield the rules that find a request's home and decide whether it goes there."""
    by, places = _parameters(pool), tuple(_places(pool, ids))
    counted = _counted(fleet, pool)
    yield f"http-request set-var({_DECISION}) str(least)"
    yield from _excess(pool, by)
    if by.by_conversation:
        yield from _conversation_rules(pool, by, counted.get("conversation"))
    if by.prompt:
        yield from _prompt_rules(pool, by, counted)
    yield from _loads(pool, places)
    # One subtraction alone: from a negative number it gives the largest there is (seen on 2.6.12).
    yield "http-request set-var(txn.lb_room) var(txn.lb_average)"
    room = f"{{ var({_LOAD}),sub(txn.lb_room) lt 0 }}"
    for decision, instead in (("prompt", "least"), ("home", "moved")):
        yield "http-request set-var(txn.lb_room) var(txn.lb_room),add(txn.lb_excess)"
        yield f"http-request set-var({_DECISION}) str({instead}) if {_decided(decision)} !{room}"
    if "decision" in counted:
        yield f"http-request track-sc{counted['decision']} var({_DECISION}) table {decisions_table(pool)}"


def hashed_rules(pool: Pool) -> Iterator[str]:
    """Yield the rules that find what is hashed where balancers do not share what they learn."""
    by = _parameters(pool)
    if by.by_conversation:
        yield from _named(pool, by)
    unnamed = f"!{{ var({_CONVERSATION}) -m found }}"
    if by.prompt:
        prompt = f"var({read_variable(pool, by.prompt)}){_client(by)}"
        yield f"http-request set-var({HASHED}) {prompt} if {unnamed}"


def _named(pool: Pool, by: PrefixParameters) -> Iterator[str]:
    """Yield the rules that find what names the conversation: a header, or what the body says."""
    unnamed = f"!{{ var({_CONVERSATION}) -m found }}"
    for name in by.headers:
        sample = header_sample(name)
        digest = quote(f"req.fhdr({name}){_client(by) or _DIGEST}")
        yield f"http-request set-var({_CONVERSATION}) {digest} if {unnamed} {{ {sample} -m len gt 0 }}"
    for kind in ("cache_key", "conversation"):
        written = f"var({read_variable(pool, kind)}){_client(by)}"
        yield f"http-request set-var({_CONVERSATION}) {written} if {unnamed}"


_DIGEST = ",sha1,hex"


def _client(by: PrefixParameters) -> str:
    """Return the converters that tell clients apart, where they share nothing."""
    return f",concat(.,txn.lb_client){_DIGEST}" if by.scope == "client" else ""


def _excess(pool: Pool, by: PrefixParameters) -> Iterator[str]:
    """Yield the rules that reckon, in hundredths, the average in flight and what a server may have above."""
    yield f"http-request set-var(txn.lb_alive) nbsrv({pool.name})"
    yield f"http-request set-var(txn.lb_average) be_conn({pool.name}),mul(100),div(txn.lb_alive)"
    caps = [pool.cap(server) for server in pool.servers]
    cap = None if None in caps else min(filter(None, caps), default=pool.max_in_flight)
    slack, percent = by.slack_for(cap) * 100, round(by.load_factor * 100) - 100
    yield f"http-request set-var(txn.lb_excess) var(txn.lb_average),mul({percent}),div(100)"
    yield f"http-request set-var(txn.lb_excess) int({slack}) if {{ var(txn.lb_excess) -m int lt {slack} }}"
    # Twice the bound on what is alike, and twice the request itself, which is counted when it is compared.
    yield "http-request set-var(txn.lb_most_turns) var(txn.lb_average),mul(2),add(txn.lb_excess),add(200)"
    above = 200 * (POPULAR_ABOVE + 1)
    yield f"http-request set-var(txn.lb_most_prompts) var(txn.lb_average),mul(2),add({above})"


_POPULAR = "{ var(txn.lb_popular) -m found }"


def _conversation_rules(pool: Pool, by: PrefixParameters, own: int | None) -> Iterator[str]:
    """Yield the rules that find the conversation's home; `own`: the number of the conversation's counter."""
    yield from _named(pool, by)
    if own is not None:
        # So many at a time are no conversation, but requests that happen to be alike.
        yield f"http-request track-sc{own} var({_CONVERSATION}) table {pool.name}"
        yield f"http-request unset-var({_CONVERSATION}) if {_many(own, 'turns')}"
    yield f"http-request set-var({_HOME}) var({_CONVERSATION}),table_server_id({pool.name})"
    yield f"http-request set-var({_DECISION}) str(home) if {{ var({_HOME}) -m int gt 0 }}"


def _prompt_rules(pool: Pool, by: PrefixParameters, counted: Mapping[str, int]) -> Iterator[str]:
    """Yield the rules that find the home of the prompt, for who has none of a conversation.

    A prompt is everybody's when it has much in flight, or a large share of all requests.
    """
    yield f"http-request set-var({_PROMPT}) var({read_variable(pool, by.prompt or '')}){_client(by)}"
    free, popular = _decided("least"), "http-request set-var(txn.lb_popular) bool(true)"
    if "prompt" in counted:
        yield f"http-request track-sc{counted['prompt']} var({_PROMPT}) table {_prompts(pool)}"
        yield f"{popular} if {_many(counted['prompt'], 'prompts')}"
        free += f" !{_POPULAR}"
    if "all" in counted:
        yield f"http-request track-sc{counted['all']} str(all) table {_prompts(pool)}"
        yield f"http-request set-var(txn.lb_share) sc_http_req_rate({counted['all']}),mul({_SHARE})"
        share = f"sc_http_req_rate({counted['prompt']}),mul(txn.lb_alive),mul(100),sub(txn.lb_share)"
        enough = f"{{ sc_http_req_rate({counted['prompt']}) gt {_ENOUGH} }}"
        yield f"{popular} if {{ {share} gt 0 }} {enough}"
    yield f"http-request set-var({_HOME}) var({_PROMPT}),table_server_id({_prompts(pool)}) if {free}"
    yield f"http-request set-var({_DECISION}) str(prompt) if {free} {{ var({_HOME}) -m int gt 0 }}"


def _many(counter: int, bound: str) -> str:
    """Return the condition that what is counted has more in flight than a server should have of it."""
    return f"{{ sc_conn_cur({counter}),mul(200),sub(txn.lb_most_{bound}) ge 0 }}"


def _loads(pool: Pool, places: tuple[_Place, ...]) -> Iterator[str]:
    """Yield the rules that look up what the home has in flight, if it serves and has room.

    By weight: twice as much is as little for a server of twice the weight. When all servers are full, waiting
    at home is better than another server's cache.
    """
    weights = sum(place.weight for place in places)
    for place in places:
        server = f"{pool.name}/{place.name}"
        share = Fraction(weights, len(places) * place.weight) * 100
        load = f"srv_conn({server}),mul({share.numerator})"
        if share.denominator > 1:
            load += f",div({share.denominator})"
        # One in the runtime state `drain` looks like any other (seen on 2.6.12), `maint` and weight 0 do not.
        serves = f"{{ srv_is_up({server}) }} {{ srv_weight({server}) gt 0 }}"
        home = f"{{ var({_HOME}) -m int {place.number} }} {serves}"
        room = f" {{ srv_conn_free({server}) gt 0 }}" if place.cap else ""
        full = f" or {home} {{ be_conn_free({pool.name}) le 0 }}" if place.cap else ""
        yield f"http-request set-var({_LOAD}) {load} if {home}{room}{full}"


def _places(pool: Pool, ids: Mapping[str, int]) -> Iterator[_Place]:
    """Yield the servers that can be homes: one that is being drained is nobody's."""
    if pool.discover and pool.discover.dns:
        for number in range(1, pool.discover.max + 1):
            yield _Place(f"server-{number}", number, 1, pool.max_in_flight)
    for server in pool.servers:
        if server.weight and server.state is State.UP:
            yield _Place(server.name, ids[server.name], server.weight, pool.cap(server))


def _decided(decision: str) -> str:
    return f"{{ var({_DECISION}) -m str {decision} }}"


def _parameters(pool: Pool) -> PrefixParameters:
    return PrefixParameters.of(pool.strategy.parameters)


def _prompts(pool: Pool) -> str:
    return f"prompt:{pool.name}"
