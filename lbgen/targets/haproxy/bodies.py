"""What HAProxy finds in a request's body: it waits for the body, and asks JSON for single members.

Only what fits the buffer is seen (seen on 2.6 to 3.2), so `tune.bufsize` follows `inspect.body`, and a body
that does not fit, or is compressed, is known as hidden: where its text would decide, it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.words import duration
from lbgen.targets.sessions import session_of

if TYPE_CHECKING:
    from lbgen.model import Fleet, Listener, Match, Pool
    from lbgen.targets.haproxy.rules import Rules

_HEADERS = 65_536
"""Bytes of a buffer for the headers, beside the body."""
HIDDEN = "{ var(txn.lb_hidden) -m found }"
_PROMPTS = (
    "$.system",
    "$.system[0].text",
    "$.messages[0].content",
    # Content as a list gives nothing on 2.6 and its text as JSON on 3.0: its first part works on both.
    "$.messages[0].content[0].text",
    "$.instructions",
    "$.prompt",
    "$.input",
)
_PLAIN = r"'req.body,regsub(\\\\u,u,g),regsub(\\\\/,/,g)'"
"""The body without the escapes that make `json_query` give nothing (seen on 2.6: `\\/` and `\\u00e9`)."""
_ESCAPED = "{ req.body -m reg '\\\\[u/]' }"
_NO_MODEL = "!{ var(txn.lb_model) -m len gt 0 }"
_HEAD_START = 30_000
"""Milliseconds: the most that a request with a short answer may overtake."""
_PER_TOKEN = 10
"""Milliseconds that a token is reckoned to take."""


def looks_inside(match: Match) -> bool:
    """Tell whether the text of the body decides, not only its length."""
    return bool(match.models) or match.max_tokens_over is not None


def needs_length(match: Match) -> bool:
    """Tell whether the length of the body decides."""
    return match.prompt_over is not None or match.prompt_under is not None


def reads_body(fleet: Fleet, listener: Listener) -> bool:
    """Tell whether anything of a listener has to see bodies."""
    matches = any(looks_inside(route.match) or needs_length(route.match) for route in listener.routes)
    return matches or any(_pool_reads(pool) for pool in _pools(fleet, listener))


def buffer_size(fleet: Fleet) -> int | None:
    """Return the bytes of a buffer; None: HAProxy's own 16 KiB are enough."""
    sizes = [listener.inspect_body for listener in fleet.listeners if reads_body(fleet, listener)]
    return max(sizes) + _HEADERS if sizes else None


def _pools(fleet: Fleet, listener: Listener) -> tuple[Pool, ...]:
    names = dict.fromkeys(name for route in listener.routes for name in route.pools)
    return tuple(fleet.pool(name) for name in names)


def _pool_reads(pool: Pool) -> bool:
    session = session_of(pool)
    named = session is not None and session.body is not None
    return pool.strategy.name == "prefix" or named or pool.queue.order == "shortest_first"


def body_rules(rules: Rules, listener: Listener) -> None:
    """Add what reads the body into variables, if anything needs them."""
    fleet = rules.made.fleet
    if not reads_body(fleet, listener):
        return
    pools = _pools(fleet, listener)
    send = max((pool.timeouts.send or 0 for pool in pools), default=0) or 60_000
    rules.add(f"http-request wait-for-body time {duration(send)}", "{ method POST PUT PATCH }")
    _hidden_rules(rules, listener)
    matches = [route.match for route in listener.routes]
    if any(match.models for match in matches):
        rules.add("http-request set-var(txn.lb_model) req.body,json_query($.model)")
        rules.add(f"http-request set-var(txn.lb_model) {_PLAIN},json_query($.model)", _NO_MODEL, _ESCAPED)
    shortest = any(pool.queue.order == "shortest_first" for pool in pools)
    if shortest or any(match.max_tokens_over is not None for match in matches):
        _token_rules(rules)
    if shortest:
        _cost_rules(rules)
    for pool in pools:
        if pool.strategy.name == "prefix":
            _prefix_rules(rules, pool)


def _hidden_rules(rules: Rules, listener: Listener) -> None:
    rules.add("http-request set-var(txn.lb_seen) req.body_len")
    rules.add("http-request set-var(txn.lb_size) req.body_size")
    hide = "http-request set-var(txn.lb_hidden) bool(true)"
    # A body without a length looks complete when the buffer is full (seen on 2.6).
    rules.add(hide, f"{{ var(txn.lb_seen) -m int ge {listener.inspect_body} }}")
    rules.add(hide, "{ req.body_size,sub(txn.lb_seen) gt 0 }")
    rules.add(
        hide, "{ req.fhdr(Content-Encoding) -m found }", "!{ req.fhdr(Content-Encoding) -m str -i identity }"
    )


def _token_rules(rules: Rules) -> None:
    unknown = "!{ var(txn.lb_tokens) -m found }"
    rules.add("http-request set-var(txn.lb_tokens) req.body,json_query($.max_tokens,int)")
    rules.add("http-request set-var(txn.lb_tokens) req.body,json_query($.max_completion_tokens,int)", unknown)


def _cost_rules(rules: Rules) -> None:
    """Add the expected cost in milliseconds, at most `_HEAD_START`: so long may others overtake."""
    rules.add(f"http-request set-var(txn.lb_cost) int({_HEAD_START})")
    rules.add(
        f"http-request set-var(txn.lb_cost) var(txn.lb_size),div(64),add(txn.lb_tokens),mul({_PER_TOKEN})",
        "{ var(txn.lb_tokens) -m found }",
        f"{{ var(txn.lb_tokens) -m int lt {_HEAD_START // _PER_TOKEN} }}",
    )
    rules.add(
        f"http-request set-var(txn.lb_cost) int({_HEAD_START})",
        f"{{ var(txn.lb_cost) -m int gt {_HEAD_START} }}",
    )


def _prefix_rules(rules: Rules, pool: Pool) -> None:
    """Add the digest of the prompt's beginning, in the pool's own variable: pools differ in parameters."""
    name = prefix_variable(pool)
    octets = pool.strategy.parameters.get("bytes", 2_048)
    found, cut = f"{{ var({name}) -m len gt 0 }}", f"bytes(0,{octets})"
    if pool.strategy.parameters.get("key", "system_prompt") == "system_prompt":
        ways: tuple[tuple[str, tuple[str, ...]], ...] = (("req.body", ()), (_PLAIN, (_ESCAPED,)))
        for body, conditions in ways:
            for path in _PROMPTS:
                # Each look goes through all of the body: one a path, without asking first.
                rules.add(
                    f"http-request set-var({name}) {body},json_query({path}),{cut}", f"!{found}", *conditions
                )
    # Also for what is no JSON, or not all of it to be seen.
    rules.add(f"http-request set-var({name}) req.body,{cut}", f"!{found}")
    rules.add(f"http-request unset-var({name})", f"!{found}")
    rules.add(f"http-request set-var({name}) var({name}),sha1,hex", found)
    if pool.strategy.parameters.get("scope") == "client":
        rules.add(
            f"http-request set-var({name}) var({name}),concat(.,txn.lb_client)", f"{{ var({name}) -m found }}"
        )


def prefix_variable(pool: Pool) -> str:
    """Return the variable with the digest by which this pool's prompts are told."""
    return "txn.lb_prefix_" + "".join(c if c.isalnum() else "_" for c in pool.name)
