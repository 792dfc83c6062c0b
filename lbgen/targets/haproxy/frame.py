"""What every request of a frontend goes through, whatever its route."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.logs import access_log, error_log, log_target, measuring_rules
from lbgen.targets.haproxy.views import syntax
from lbgen.targets.haproxy.words import duration, refuse, server_timeout

if TYPE_CHECKING:
    from lbgen.model import Listener
    from lbgen.targets.haproxy.assembly import Assembly
    from lbgen.targets.haproxy.rules import Rules
    from lbgen.targets.spec import Syntax

_HOPS = 3
"""So many trusted proxies one behind the other are looked through."""


def client_timeout(made: Assembly, listeners: tuple[Listener, ...]) -> int:
    """Return how long a client may be silent, in milliseconds: as long as any answer may take.

    HAProxy counts a client's silence also while it waits for tokens (seen on 2.6).
    """
    pools = {name for listener in listeners for route in listener.routes for name in route.pools}
    waits = [server_timeout(made.fleet.pool(name).timeouts) for name in pools]
    waits += [server_timeout(route.timeouts) for listener in listeners for route in listener.routes]
    return max(waits, default=0) or 600_000


def frontend_settings(made: Assembly, listeners: tuple[Listener, ...]) -> tuple[Syntax, ...]:
    """Return what every frontend of these listeners says of its log and its clients."""
    logs = made.fleet.logs
    return syntax(
        log_target(logs),
        access_log(logs),
        error_log(logs, listeners[0].name),
        f"timeout client {duration(client_timeout(made, listeners))}",
    )


def frame_rules(rules: Rules) -> None:
    """Add what is the same for all: variables for the log, and whose request it is."""
    rules.add("http-request set-var(txn.lb_path) path")
    # Routes look at the decoded path, as NGINX's locations do: %2Fchat is no way around a route for /chat.
    rules.add("http-request set-var(txn.lb_decoded) path,url_dec")
    rules.add("http-request set-var(txn.lb_method) method")
    # A client's own id is kept when it cannot spoil a log.
    rules.add("http-request set-var(txn.lb_request_id) uuid()")
    rules.add(
        "http-request set-var(txn.lb_request_id) req.fhdr(X-Request-Id)",
        "{ req.fhdr(X-Request-Id) -m reg '^[A-Za-z0-9._:/+=-]{1,128}$' }",
    )
    measuring_rules(rules)
    listener_rules(rules)
    rules.add("http-request set-header X-Request-Id %[var(txn.lb_request_id)]")
    rules.add(
        "http-after-response set-header X-Request-Id %[var(txn.lb_request_id)]",
        "{ var(txn.lb_request_id) -m found }",
    )
    # A server may resolve these, and so serve a path that no route allows.
    rules.add(refuse("bad_request"), r"{ var(txn.lb_decoded) -m reg '(^|/)\.\.?(/|$)' }")


def listener_rules(rules: Rules) -> None:
    """Add the rules that say whose request it is: exact names, then wildcards, then any host."""
    if len(rules.listeners) == 1 and not rules.listeners[0].hosts:
        rules.add(f"http-request set-var(txn.lb_listener) str({rules.listeners[0].name})")
        return
    rules.add("http-request set-var(txn.lb_host) req.hdr(host),host_only,lower")
    unknown = "!{ var(txn.lb_listener) -m found }"
    for matching in ("str", "end"):
        for listener in rules.listeners:
            hosts = [host.lower() for host in listener.hosts if host.startswith("*.") == (matching == "end")]
            if hosts:
                patterns = tuple(host.removeprefix("*") for host in hosts)
                name = rules.acl((f"var(txn.lb_host) -m {matching}", patterns))
                rules.add(f"http-request set-var(txn.lb_listener) str({listener.name})", unknown, name)
    for listener in rules.listeners:
        if not listener.hosts:
            rules.add(f"http-request set-var(txn.lb_listener) str({listener.name})", unknown)


def address_rules(rules: Rules, listener: Listener) -> None:
    """Add the headers that tell a server of the client; a trusted proxy in front is looked through."""
    if listener.trusted_proxies:
        trusted = rules.acl(("src", listener.trusted_proxies))
        rules.add("http-request set-var(txn.lb_trusted) bool(true)", trusted)
        if not listener.accept_proxy:
            for hop in range(1, _HOPS + 1):
                # Each step asks anew: `src` is what the last one set.
                rules.add(f"http-request set-src req.hdr_ip(X-Forwarded-For,-{hop})", trusted)
    # Overwritten, not appended to: what a client claims about itself is worth nothing.
    rules.add("http-request set-header X-Forwarded-For %[src]")
    rules.add("http-request set-header X-Real-IP %[src]")
    believed = ["!{ var(txn.lb_trusted) -m found }"] if listener.trusted_proxies else []
    rules.add("http-request set-header X-Forwarded-Proto %[ssl_fc,iif(https,http)]", *believed)
    if believed:
        odd = "!{ req.fhdr(X-Forwarded-Proto) -m str -- http https }"
        rules.add("http-request set-header X-Forwarded-Proto %[ssl_fc,iif(https,http)]", odd)
    rules.add("http-request set-header X-Forwarded-Host %[req.hdr(host)]")


def upgrade_rules(rules: Rules, listener: Listener) -> None:
    """Add what keeps all upgrades but WebSocket's away from servers: `h2c` is a plain request to them."""
    tunnels = listener.websocket or any(route.match.websocket for route in listener.routes)
    conditions = [f"!{websocket(rules)}"] if tunnels else []
    for name in ("Upgrade", "HTTP2-Settings", "Connection"):
        rules.add(f"http-request del-header {name}", *conditions)


def websocket(rules: Rules) -> str:
    """Return the name of the ACL that knows a WebSocket handshake: just that token, in any case."""
    return rules.acl(("req.fhdr(Upgrade) -m str -i", ("websocket",)))


def late_rules(rules: Rules, listener: Listener) -> None:
    """Add what is done to the answers."""
    if listener.behind_proxy:
        # A proxy in front that buffers, such as NGINX, is told not to.
        rules.add("http-after-response set-header X-Accel-Buffering no")
    if listener.tls and listener.tls.hsts:
        rules.add("http-after-response set-header Strict-Transport-Security max-age=63072000")
