"""What every request of a frontend goes through, whatever its route."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.logs import measuring_rules
from lbgen.targets.haproxy.words import server_timeout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener
    from lbgen.targets.haproxy.assembly import Assembly
    from lbgen.targets.haproxy.rules import Rules
    from lbgen.units import Address


def binds(made: Assembly, listeners: tuple[Listener, ...], address: Address) -> Iterator[str]:
    """Yield the arguments of `bind` for one address."""
    del made
    words = "" if listeners[0].http2 else " proto h1"
    if address.host == "*":
        # Two sockets: on one for both, IPv4 addresses would show as ::ffff:10.0.0.1.
        yield f"0.0.0.0:{address.port}{words}"
        yield f"[::]:{address.port} v6only{words}"
    else:
        yield f"{address}{words}"


def client_timeout(made: Assembly, listeners: tuple[Listener, ...]) -> int:
    """Return how long a client may be silent, in milliseconds: as long as any answer may take.

    HAProxy counts a client's silence also while it waits for tokens (seen on 2.6).
    """
    pools = {name for listener in listeners for route in listener.routes for name in route.pools}
    waits = [server_timeout(made.fleet.pool(name).timeouts) for name in pools]
    waits += [server_timeout(route.timeouts) for listener in listeners for route in listener.routes]
    return max(waits, default=0) or 600_000


def frame_rules(rules: Rules) -> None:
    """Add what is the same for all: variables for the log, headers that tell of the client."""
    rules.add("http-request set-var(txn.lb_path) path")
    rules.add("http-request set-var(txn.lb_method) method")
    # A client's own id is kept when it cannot spoil a log.
    rules.add("http-request set-var(txn.lb_request_id) uuid()")
    rules.add(
        "http-request set-var(txn.lb_request_id) req.hdr(X-Request-Id)",
        "{ req.hdr(X-Request-Id) -m reg '^[A-Za-z0-9._:/+=-]{1,128}$' }",
    )
    measuring_rules(rules)
    _listener_of(rules)
    rules.add("http-request set-header X-Request-Id %[var(txn.lb_request_id)]")
    rules.add("http-after-response set-header X-Request-Id %[var(txn.lb_request_id)]")
    # Overwritten, not appended to: what a client claims about itself is worth nothing.
    rules.add("http-request set-header X-Forwarded-For %[src]")
    rules.add("http-request set-header X-Real-IP %[src]")
    rules.add("http-request set-header X-Forwarded-Proto %[ssl_fc,iif(https,http)]")
    rules.add("http-request set-header X-Forwarded-Host %[req.hdr(host)]")


def _listener_of(rules: Rules) -> None:
    """Add the rules that say whose request it is: exact names, then wildcards, then any host."""
    if len(rules.listeners) == 1 and not rules.listeners[0].hosts:
        rules.add(f"http-request set-var(txn.lb_listener) str({rules.listeners[0].name})")
        return
    rules.add("http-request set-var(txn.lb_host) req.hdr(host),host_only,lower")
    unknown = "!{ var(txn.lb_listener) -m found }"
    for matching in ("var(txn.lb_host) -m str", "var(txn.lb_host) -m end"):
        wild = matching.endswith("end")
        for listener in rules.listeners:
            hosts = [host.lower() for host in listener.hosts if host.startswith("*.") == wild]
            if hosts:
                name = rules.acl((matching, (host.removeprefix("*") for host in hosts)))
                rules.add(f"http-request set-var(txn.lb_listener) str({listener.name})", unknown, name)
    for listener in rules.listeners:
        if not listener.hosts:
            rules.add(f"http-request set-var(txn.lb_listener) str({listener.name})", unknown)


def late_rules(rules: Rules, listener: Listener) -> None:
    """Add what is done to the answers."""
    if listener.behind_proxy:
        # A proxy in front that buffers, such as NGINX, is told not to.
        rules.add("http-after-response set-header X-Accel-Buffering no")
