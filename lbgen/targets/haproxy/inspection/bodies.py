r"""What HAProxy finds in a request's body: it waits for the body, and a script of ours reads it once.

The script bounds its own work, see `lbgen.lua`. `json_query` goes through all of the body for each path, and
takes neither escapes in texts nor NaN (seen on 2.6); `regsub` with `g` moves the rest of the body at every
match, so that 300 KB of `\/` end the process (seen on 3.2).
Only what fits the buffer is seen (seen on 2.6 to 3.2), so `tune.bufsize` follows `inspect.body`, and a body
that does not fit, is compressed or cannot be read is known as hidden: where it would decide, it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.strategies.prefix import prefix_of
from lbgen.strategies.session import session_of
from lbgen.targets.common.paths import LISTED, lua_pattern, model_paths
from lbgen.targets.haproxy.features import has
from lbgen.targets.haproxy.language.words import duration, refuse
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Listener, Pool
    from lbgen.targets.haproxy.assembly import Assembly
    from lbgen.targets.haproxy.language.rules import Rules

SCRIPT = "lbgen.lua"
"""The file of the script that reads bodies."""
_HEADERS = 65_536
"""Bytes of a buffer for the headers, beside the body."""
HIDDEN = "{ var(txn.lb_hidden) -m found }"
CONVERSATION_BYTES = 16_384
"""Of the first message, which begins with the same reminders in all sessions of some agents."""
_UNREAD = "!{ var(txn.lb_size) -m found }"
_HEAD_START = 30_000
"""Milliseconds: the most that a request with a short answer may overtake."""
_PER_TOKEN = 10
"""Milliseconds that a token is reckoned to take."""


def reads_body(fleet: Fleet, listener: Listener) -> bool:
    """Tell whether anything of a listener has to see bodies."""
    matches = any(route.match.reads_body for route in listener.routes)
    return matches or logs_text(fleet) or any(map(pool_reads, fleet.pools_of(listener)))


def logs_text(fleet: Fleet) -> bool:
    """Tell whether the access log has what stands in bodies."""
    return fleet.logs.asks("model", "max_tokens")


def reads_text(fleet: Fleet) -> bool:
    """Tell whether anything of the fleet needs the script."""
    return any(_wanted(fleet, listener) for listener in fleet.listeners)


def buffer_size(fleet: Fleet) -> int | None:
    """Return the bytes of a buffer; None: HAProxy's own 16 KiB are enough."""
    sizes = [listener.inspect_body for listener in fleet.listeners if reads_body(fleet, listener)]
    return max(sizes) + _HEADERS if sizes else None


def script_lines(made: Assembly) -> Iterator[str]:
    """Yield the lines of `global` that load the script, where something needs it."""
    if reads_text(made.fleet):
        if has(made.settings.version, "lua_booleans"):
            # Without it 3.2 warns as soon as a script is loaded.
            yield "tune.lua.bool-sample-conversion normal"
        # One interpreter for each thread, where all find the file: with `lua-load` all wait for one.
        per_thread = "-per-thread" if has(made.settings.version, "lua_paths_of_threads") else ""
        yield f"lua-load{per_thread} {made.file(SCRIPT)}"


def pool_reads(pool: Pool) -> bool:
    """Tell whether a pool needs what stands in the bodies of its requests."""
    return bool(_asked(pool)) or pool.queue.order == "shortest_first"


def _wanted(fleet: Fleet, listener: Listener) -> tuple[str, ...]:
    """Return what the script is asked for, in its words."""
    matches = [route.match for route in listener.routes]
    pools = fleet.pools_of(listener)
    logs = fleet.logs
    wanted = ["model"] if logs.asks("model") or any(match.models for match in matches) else []
    if wanted and any(pool.engine == "ollama" for pool in pools):
        wanted.append("name")
    wanted += [f"form:{name}" for match in matches for name in match.form]
    shortest = any(pool.queue.order == "shortest_first" for pool in pools)
    if shortest or logs.asks("max_tokens") or any(match.max_tokens_over is not None for match in matches):
        wanted.append("tokens")
    wanted += [name for pool in pools for name in _asked(pool)]
    return tuple(dict.fromkeys(wanted))


class Reader:
    """The rules of one listener that read bodies, where they are first needed and nowhere else."""

    def __init__(self, rules: Rules, listener: Listener) -> None:
        self._rules = rules
        self._listener = listener
        self._wanted = _wanted(rules.made.fleet, listener)
        self._wait = listener.timeouts.body
        self._read: set[tuple[str, ...]] = set()
        self._ends = ""

    def read(self, *conditions: str) -> None:
        """Add the rules that read the body of a request for which all of these conditions hold."""
        if conditions in self._read or conditions[:1] in self._read:
            return
        self._read.add(conditions)
        when = (*conditions, _UNREAD)
        add = self._rules.add
        add(f"http-request wait-for-body time {duration(self._wait)}", *when, self._has_end())
        if self._wanted:
            # Until the script says otherwise: it may be stopped when the client has gone.
            add("http-request set-var(txn.lb_hidden) str(unread)", *when)
            words = f"{self._listener.inspect_body} {','.join(self._wanted)}"
            add(f"http-request lua.lbgen-body {words}", *when)
        add("http-request set-var(txn.lb_size) req.body_size", *when)

    def _has_end(self) -> str:
        """Return the ACL of requests that end: all but a WebSocket over HTTP/2, which is a GET by now."""
        lengths = [(f"req.fhdr({name}) -m found", ()) for name in ("Content-Length", "Transfer-Encoding")]
        self._ends = self._ends or self._rules.acl(("req.fhdr_cnt(Upgrade) eq 0", ()), *lengths)
        return self._ends


def hidden_rules(rules: Rules, condition: str) -> None:
    """Add the answers where a hidden body would have decided."""
    for reason, name in (("encoded", "unsupported_encoding"), ("invalid", "bad_body"), ("ill", "bad_form")):
        rules.add(refuse(name), condition, f"{{ var(txn.lb_hidden) -m str {reason} }}")
    rules.add(refuse("model_unreadable"), condition)


def prompt_rules(rules: Rules, listener: Listener) -> None:
    """Add what the queues of a listener's pools make of what was read."""
    pools = rules.made.fleet.pools_of(listener)
    if any(pool.queue.order == "shortest_first" for pool in pools):
        _cost_rules(rules)


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


def _asked(pool: Pool) -> tuple[str, ...]:
    """Return by what of the body a pool's requests are kept together, as the script calls it."""
    session = session_of(pool)
    if session is not None:
        return (f"member:{session.body.removeprefix('$.')}",) if session.body else ()
    by = prefix_of(pool)
    if by is None:
        return ()
    conversation = ("cache_key", f"conversation:{CONVERSATION_BYTES}") if by.by_conversation else ()
    return (*conversation, *((f"{by.prompt}:{by.bytes}",) if by.prompt else ()))


def read_variable(pool: Pool, kind: str) -> str:
    """Return the variable in which the script puts a value of this kind for a pool.

    Raises `StopIteration` for a kind that the pool has no use for.
    """
    name = next(name for name in _asked(pool) if name.partition(":")[0] == kind)
    return variable(kind, name.partition(":")[2])


def variable(kind: str, detail: str = "") -> str:
    """Return the variable in which the script puts a value of this kind."""
    suffix = "_" + "".join(c if c.isalnum() else f"_{ord(c):02x}" for c in detail) if detail else ""
    return f"txn.lb_{kind}{suffix}"


def script_context(fleet: Fleet) -> dict[str, object]:
    """Return what the script's template sees: beginnings of paths that name the model, as patterns of Lua."""
    paths = tuple(Syntax(lua_pattern(path)) for path in model_paths(fleet.listeners))
    return {"names": Syntax(lua_pattern(LISTED)), "segments": paths}
