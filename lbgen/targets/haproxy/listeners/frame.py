"""What every request of a frontend goes through, whatever its route."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.claims import CLAIMS
from lbgen.targets.haproxy.features import has
from lbgen.targets.haproxy.language.quoting import quote
from lbgen.targets.haproxy.language.words import WEBSOCKET, refuse, server_timeout, timeouts
from lbgen.targets.haproxy.logs import access_log, error_log, log_target, measuring_rules
from lbgen.targets.haproxy.views import syntax

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.model import Listener
    from lbgen.targets.haproxy.assembly import Assembly
    from lbgen.targets.haproxy.language.rules import Rules
    from lbgen.targets.spec import Syntax

_PLAIN_ADDRESSES = (
    "http-request replace-value X-Forwarded-For"
    r" '^(?:\[([0-9A-Fa-f:.]+)\](?::[0-9]+)?|([0-9.]+):[0-9]+)$' '\1\2'"
)
"""Takes ports and brackets off, in which `req.hdr_ip` sees no address (2.6.12)."""
_UPGRADES = ("HTTP2-Settings", "Upgrade", "Connection")
_LONGEST_URL = 32_768
"""Bytes. Merging slashes takes time by the square: 3 ms at this length (seen on 2.6.12)."""
_HEADERS_PER_LINE = 8
"""A line has at most 64 words."""
_HOPS = 3
"""So many trusted proxies one behind the other are looked through."""


def client_timeout(made: Assembly, listeners: tuple[Listener, ...]) -> int:
    """Return how long a client may be silent, in milliseconds: as long as any answer may take.

    HAProxy counts a client's silence also while it waits for tokens (seen on 2.6).
    """
    waits = [server_timeout(pool.timeouts) for one in listeners for pool in made.fleet.pools_of(one)]
    waits += [server_timeout(route.timeouts) for listener in listeners for route in listener.routes]
    waits += [listener.timeouts.body for listener in listeners]
    return max(waits, default=0) or 600_000


def frontend_settings(made: Assembly, listeners: tuple[Listener, ...]) -> tuple[Syntax, ...]:
    """Return what every frontend of these listeners says of its log and its clients."""
    logs = made.fleet.logs
    return syntax(
        *([] if made.one_log else [log_target(logs)]),
        access_log(logs, "" if told_by_host(listeners) else listeners[0].name),
        error_log(logs, listeners[0].name),
        *timeouts(
            client=client_timeout(made, listeners),
            http_request=max(listener.timeouts.header for listener in listeners),
            http_keep_alive=max(listener.timeouts.keepalive for listener in listeners),
        ),
    )


def told_by_host(listeners: tuple[Listener, ...]) -> bool:
    """Tell whether only the host of a request says which listener's it is."""
    return len(listeners) > 1 or bool(listeners[0].hosts)


def frame_rules(rules: Rules) -> None:
    """Add what is the same for all: variables for the log, and whose request it is."""
    rules.add("http-request set-var(txn.lb_path) path")
    rules.add("http-request set-var(txn.lb_method) method")
    # Keep a client's own request ID if it is safe to log.
    rules.add("http-request set-var(txn.lb_request_id) req.fhdr(X-Request-Id)")
    rules.add(
        "http-request set-var(txn.lb_request_id) uuid()",
        "!{ var(txn.lb_request_id) -m reg '^[A-Za-z0-9._:/+=-]{1,128}$' }",
    )
    measuring_rules(rules)
    listener_rules(rules)
    refusals(rules)
    rules.add("http-request set-header X-Request-Id %[var(txn.lb_request_id)]")
    rules.add(
        "http-after-response set-header X-Request-Id %[var(txn.lb_request_id)]",
        "{ var(txn.lb_request_id) -m found }",
    )


def refusals(rules: Rules) -> None:
    """Refuse what could be read in two ways, before anything else looks at it."""
    rules.why("Refuse ambiguous requests first.")
    # First, since what is below goes through all of them. What no buffer holds HAProxy refuses by itself.
    most = max(listener.header_size for listener in rules.listeners)
    rules.add(refuse("uri_too_long"), f"{{ url -m len gt {_LONGEST_URL} }}")
    rules.add(refuse("headers_too_large"), f"{{ req.hdrs -m len gt {most} }}")
    # A tunnel would lead past all rules, and an echo shows a page the keys that it may not read.
    rules.add(refuse("method_not_allowed"), "{ method CONNECT TRACE }")
    # Routes look at the decoded path with single slashes, as NGINX's locations do: /%2Fchat is no way around.
    rules.add("http-request set-var(txn.lb_decoded) path,url_dec")
    merged = "http-request set-var(txn.lb_decoded) var(txn.lb_decoded),regsub(//+,/,g)"
    rules.add(merged, "{ var(txn.lb_decoded) -m sub // }")
    # A server may end a path at a NUL, or resolve dots, and so serve what no route allows.
    dots = ("var(txn.lb_decoded) -m reg", (r"(^|/)\.\.?(/|$)",))
    unsafe = rules.acl(("path -m sub", ("%00",)), dots, name="unsafe_path")
    # What cannot be decoded, such as %zz, has no value at all.
    nul = () if has(rules.made.settings.version, "refuses_nul") else (r"{ req.hdrs -m reg '\x00' }",)
    rules.either(refuse("bad_request"), unsafe, "!{ var(txn.lb_decoded) -m found }", *nul)
    # A condition looks at any of the lines, what acts on it at the last, and a server perhaps at the first.
    rules.why("Refuse requests that repeat a header on which a decision may depend.")
    names = _deciding(rules)
    for start in range(0, len(names), _HEADERS_PER_LINE):
        some = names[start : start + _HEADERS_PER_LINE]
        rules.either(refuse("bad_request"), *map(_twice, some))
    known = {name.lower() for name in names}
    for listener in rules.listeners:
        rules.of(listener)
        for key, name in _deciding_at(listener).items():
            if key not in known:
                rules.add(refuse("bad_request"), _twice(name))
    rules.of(None)


def _twice(name: str) -> str:
    return f"{{ {quote(f'req.fhdr_cnt({name})')} gt 1 }}"


def _deciding(rules: Rules) -> tuple[str, ...]:
    """Return the names of headers by which all requests are told apart: each may come once."""
    names = ["Host", "Upgrade", "Origin", "X-Request-Id", "X-Forwarded-Proto", "Authorization", "X-Api-Key"]
    for pool in rules.made.fleet.pools:
        named = (pool.strategy.parameters.get(key) for key in ("header", "headers"))
        names += (name for value in named for name in _names(value))
    return tuple({name.lower(): name for name in names}.values())


def _deciding_at(listener: Listener) -> dict[str, str]:
    """Return the headers by which one listener tells requests apart, by their name in lower case."""
    names = [listener.auth.header]
    for route in listener.routes:
        names += route.match.headers
        if route.split_by.startswith("header:"):
            names.append(route.split_by.removeprefix("header:"))
    return {name.lower(): name for name in names}


def _names(value: object) -> tuple[str, ...]:
    """Return the names that a parameter holds, one or several."""
    return tuple(map(str, value)) if isinstance(value, tuple | list) else (str(value),) if value else ()


def listener_rules(rules: Rules) -> None:
    """Add the rules that say whose request it is: exact names, then wildcards, then any host."""
    if not told_by_host(rules.listeners):
        return
    rules.add("http-request set-var(txn.lb_host) req.fhdr(host),host_only,lower,rtrim(.)")
    unknown = "!{ var(txn.lb_listener) -m found }"
    for matching, names, listener in _names_in_order(rules.listeners):
        name = rules.acl((f"var(txn.lb_host) -m {matching}", names))
        rules.add(f"http-request set-var(txn.lb_listener) str({listener.name})", unknown, name)
    for listener in rules.listeners:
        if not listener.hosts:
            rules.add(f"http-request set-var(txn.lb_listener) str({listener.name})", unknown)


def _names_in_order(listeners: Iterable[Listener]) -> Iterator[tuple[str, tuple[str, ...], Listener]]:
    """Yield exact names, then wildcards, the longest first: in whatever order listeners are written."""
    wild = []
    for listener in listeners:
        hosts = [host.lower() for host in listener.hosts]
        exact = tuple(host for host in hosts if not host.startswith("*."))
        wild += [(host[1:], listener) for host in hosts if host.startswith("*.")]
        if exact:
            yield "str", exact, listener
    for suffix, listener in sorted(wild, key=lambda one: -len(one[0])):
        yield "end", (suffix,), listener


def address_rules(rules: Rules, listener: Listener) -> None:
    """Add the headers that tell a server of the client; a trusted proxy in front is looked through."""
    # Who speaks the PROXY protocol passes on what its client wrote.
    speaks = bool(listener.trusted_proxies) and not listener.accept_proxy
    if speaks:
        trusted = rules.acl(("src", listener.trusted_proxies))
        rules.add("http-request set-var(txn.lb_trusted) bool(true)", trusted)
        rules.add(_PLAIN_ADDRESSES, trusted)
        for hop in range(1, _HOPS + 1):
            # Each step asks anew: `src` is what the last one set. An element that is no address, such as
            # `unknown`, ends the walk: whoever it stands for is in no network that is trusted.
            address = f"req.hdr_ip(X-Forwarded-For,-{hop})"
            unreadable = (f"{{ req.hdr_cnt(X-Forwarded-For) ge {hop} }}", f"!{{ {address} -m found }}")
            rules.add("http-request set-src str(0.0.0.0)", trusted, *unreadable)
            rules.add(f"http-request set-src {address}", trusted)
    believed = ["!{ var(txn.lb_trusted) -m found }"] if speaks else []
    rules.why("Remove or overwrite these headers: values from clients are not trusted.")
    tunnels = any(map(listener.tunnels, listener.routes))
    upgrades = () if believed or tunnels else _UPGRADES
    rules.add(f"http-request del-header '^({'|'.join((*CLAIMS, *upgrades)).lower()})$' -m reg", *believed)
    rules.add("http-request set-header X-Forwarded-For %[src]")
    rules.add("http-request set-header X-Real-IP %[src]")
    rules.add("http-request set-header X-Forwarded-Proto %[ssl_fc,iif(https,http)]", *believed)
    if believed:
        odd = "!{ req.fhdr(X-Forwarded-Proto) -m str -- http https }"
        rules.add("http-request set-header X-Forwarded-Proto %[ssl_fc,iif(https,http)]", odd)
    named = (
        "{ req.fhdr_cnt(X-Forwarded-Host) eq 1 }",
        "{ req.fhdr(X-Forwarded-Host) -m reg '^[A-Za-z0-9._-]+(:[0-9]{1,5})?$' }",
        "{ var(txn.lb_trusted) -m found }",
    )
    if believed:
        rules.add("http-request set-var(txn.lb_public) bool(true)", *named)
        believed = ["!{ var(txn.lb_public) -m found }"]
    rules.add("http-request set-header X-Forwarded-Host %[req.fhdr(host)]", *believed)


def access_rules(rules: Rules, listener: Listener) -> None:
    """Refuse addresses that may not send requests: before keys are asked for, and bodies read."""
    if listener.deny:
        rules.add(refuse("address_refused"), rules.acl(("src", listener.deny)))
    if listener.allow:
        rules.add(refuse("address_refused"), f"!{rules.acl(('src', listener.allow))}")


def upgrade_rules(rules: Rules, listener: Listener) -> None:
    """Add what keeps all upgrades but WebSocket's away from servers: `h2c` is a plain request to them."""
    tunnels = any(map(listener.tunnels, listener.routes))
    if not tunnels and not listener.trusted_proxies:
        return  # they are taken off with what a client claims
    conditions = [f"!{WEBSOCKET}"] if tunnels else []
    rules.add(f"http-request del-header {_UPGRADES[0]}")
    for name in _UPGRADES[1:]:
        rules.add(f"http-request del-header {name}", *conditions)
    if tunnels:
        # Not the client's own list: what it names would be taken off by the next proxy.
        rules.add("http-request set-header Connection upgrade", WEBSOCKET)


def late_rules(rules: Rules, listener: Listener) -> None:
    """Add what is done to the answers."""
    if listener.behind_proxy:
        # A proxy in front that buffers, such as NGINX, is told not to.
        rules.add("http-after-response set-header X-Accel-Buffering no")
    if listener.explain:
        decided = "{ var(txn.lb_decision) -m found }"
        rules.add("http-after-response set-header X-LB-Decision %[var(txn.lb_decision)]", decided)
    if listener.tls and listener.tls.hsts:
        rules.add("http-after-response set-header Strict-Transport-Security max-age=63072000")
