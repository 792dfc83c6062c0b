"""Rules about listeners: what they bind, and what they let through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.fleet.rules.rule import Finding, Rule, engine_of, routed_pools
from lbgen.problems import Severity
from lbgen.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Listener
    from lbgen.problems import Path
    from lbgen.units import Address

_SMALL_BODY = 1024**2


def duplicate_listener(fleet: Fleet) -> Iterator[Finding]:
    """Find two listeners with one bind and one host."""
    by_bind: dict[Address, list[Listener]] = {}
    for listener in fleet.listeners:
        for bind in dict.fromkeys(listener.binds):
            for other in by_bind.setdefault(bind, []):
                if _same_hosts(other, listener):
                    host = _shared_host(other, listener)
                    message = (
                        f"'{other.name}' and '{listener.name}' both take {host} on {bind}: one never answers"
                    )
                    yield Finding((*listener.path, "bind"), message)
            by_bind[bind].append(listener)


def _same_hosts(one: Listener, other: Listener) -> bool:
    return (not one.hosts and not other.hosts) or bool(set(one.hosts) & set(other.hosts))


def _shared_host(one: Listener, other: Listener) -> str:
    shared = [host for host in other.hosts if host in one.hosts]
    return f"'{shared[0]}'" if shared else "every host"


def shared_proxy_protocol(fleet: Fleet) -> Iterator[Finding]:
    """Find listeners on one bind that expect different bytes before there is a host to tell them apart by."""
    first: dict[Address, Listener] = {}
    for listener in fleet.listeners:
        for bind in dict.fromkeys(listener.binds):
            other = first.setdefault(bind, listener)
            if _expected(other) != _expected(listener):
                message = (
                    f"'{other.name}' and '{listener.name}' share {bind}, and expect the header of the PROXY"
                    " protocol, which comes before any host, from different peers"
                )
                yield Finding((*listener.path, "bind"), message)


def _expected(listener: Listener) -> tuple[bool, frozenset[str]]:
    """Return whether the PROXY protocol is expected, and from whom."""
    peers = listener.trusted_proxies if listener.accept_proxy else ()
    return listener.accept_proxy, frozenset(peers)


def small_body(fleet: Fleet) -> Iterator[Finding]:
    """Find limits on bodies that a long prompt or an image exceeds."""
    for listener in fleet.listeners:
        place = (*listener.path, "max_body")
        if 0 < listener.max_body <= _SMALL_BODY and fleet.origins.written(place):
            shown = format_size(listener.max_body)
            yield Finding(
                place, f"a body over {shown} gets 413: one image, or a long prompt, is more than that"
            )


def status_shadows(fleet: Fleet) -> Iterator[Finding]:
    """Find the balancer's own probes on paths that belong to an engine or a route."""
    pools = {pool.name: pool for pool in fleet.pools}
    for listener in fleet.listeners:
        served = {path for route in listener.routes for path in route.match.paths_exact}
        for name in routed_pools(listener) & pools.keys():
            served.update(engine_of(pools[name]).health_paths)
        for key, path in (("live", listener.status.live), ("ready", listener.status.ready)):
            place = (*listener.path, "status", key)
            if path in served and path != "/" and fleet.origins.written(place):
                message = (
                    f"'{path}' is answered by the balancer, and no longer by the servers that have it too"
                )
                yield Finding(place, message, f"write /lb/{key}, or another path that no server has")


def underscore_header(fleet: Fleet) -> Iterator[Finding]:
    """Find headers with an underscore that a proxy in front would have to let through."""
    if not any(listener.behind_proxy or listener.trusted_proxies for listener in fleet.listeners):
        return
    for path, name in _inspected_headers(fleet):
        if "_" in name:
            message = (
                f"a proxy in front may drop '{name}' without a word: to NGINX, names with '_' are invalid"
            )
            yield Finding(path, message, f"use {name.replace('_', '-')}")


def _inspected_headers(fleet: Fleet) -> Iterator[tuple[Path, str]]:
    for listener in fleet.listeners:
        if fleet.origins.written((*listener.path, "auth", "header")):
            yield (*listener.path, "auth", "header"), listener.auth.header
        for route in listener.routes:
            for name in route.match.headers:
                yield (*route.path, "header", name), name
            if route.split_by.startswith("header:"):
                yield (*route.path, "by"), route.split_by.removeprefix("header:")
    for pool in fleet.pools:
        header = pool.strategy.parameters.get("header")
        if isinstance(header, str):
            yield (*pool.path, "strategy", "header"), header


def grpc_without_http2(fleet: Fleet) -> Iterator[Finding]:
    """Find gRPC behind listeners that speak only HTTP/1."""
    protocols = {pool.name: pool.protocol for pool in fleet.pools}
    for listener in fleet.listeners:
        names = sorted(name for name in routed_pools(listener) if protocols.get(name) == "grpc")
        if names and not listener.http2:
            message = f"'{names[0]}' speaks gRPC, which is HTTP/2 only, and this listener does not"
            yield Finding((*listener.path, "http2"), message)


def websocket_over_http2(fleet: Fleet) -> Iterator[Finding]:
    """Find WebSocket handshakes that are led to servers which are spoken to in HTTP/2."""
    http2 = {pool.name for pool in fleet.pools if pool.protocol != "http"}
    for path, names in _websocket_ways(fleet):
        for name in sorted(http2.intersection(names)):
            yield Finding(
                path, f"a WebSocket that is led to '{name}' ends as 502: its servers are asked in HTTP/2"
            )


def _websocket_ways(fleet: Fleet) -> Iterator[tuple[Path, set[str]]]:
    """Yield each place that lets WebSockets through, and the pools that they can reach from there."""
    for listener in fleet.listeners:
        if listener.websocket:
            open_to_all = (route.pools for route in listener.routes if route.match.websocket is None)
            yield (*listener.path, "websocket"), set().union(*open_to_all)
        for route in listener.routes:
            if route.match.websocket:
                yield route.path, set(route.pools)


RULES = (
    Rule(
        "duplicate-listener",
        Severity.ERROR,
        "two listeners have the same bind and the same host",
        "Listeners are selected by port and host name. If both are the same, one listener gets all "
        "requests: with other routes, other limits, or no auth.",
        "give each its own 'hosts', or another port",
        duplicate_listener,
    ),
    Rule(
        "shared-proxy-protocol",
        Severity.ERROR,
        "listeners on one bind differ in `accept_proxy`, or in whom it is accepted from",
        "The PROXY protocol's header is the first thing on a connection, before TLS names a host. So "
        "it is required either for all listeners on that address or for none.",
        "write the same 'accept_proxy' and 'trusted_proxies' in both, or give one of them another port",
        shared_proxy_protocol,
    ),
    Rule(
        "small-body",
        Severity.WARNING,
        "`max_body` is 1 MiB or less",
        "Images and audio are sent inside the JSON, in base64, and every turn contains the whole "
        "conversation. NGINX's default of 1 MiB is a well-known cause of 413 (open-webui#3026).",
        "write 64MiB, the default",
        small_body,
    ),
    Rule(
        "status-shadows-engine",
        Severity.WARNING,
        "`status.live` or `status.ready` is a path that the servers have too",
        "A client that asks `/health` about the engine gets an answer about the balancer instead, "
        "which is always healthy.",
        "write a path that no server has, such as /lb/ready",
        status_shadows,
    ),
    Rule(
        "underscore-header",
        Severity.WARNING,
        "auth, a route or a strategy reads a header with `_` in its name, behind a proxy",
        "By default, NGINX ignores request headers with an underscore in their name (1.22 to 1.30): "
        "keys are then missing and routes never match. The rendered files accept them; an NGINX in "
        "front does so only with `underscores_in_headers on`.",
        "use a name with '-', such as X-Api-Key",
        underscore_header,
    ),
    Rule(
        "grpc-without-http2",
        Severity.ERROR,
        "a pool with `protocol: grpc` behind a listener with `http2: false`",
        "gRPC exists on HTTP/2 only; clients cannot even connect.",
        "write 'http2: true' in the listener",
        grpc_without_http2,
    ),
    Rule(
        "websocket-over-http2",
        Severity.WARNING,
        "a pool with `protocol: h2c` or `grpc` receives WebSockets",
        "A WebSocket begins as an upgrade in HTTP/1.1. Over HTTP/2 it needs another handshake (RFC "
        "8441), which NGINX does not use towards servers and few servers understand, so the client "
        "gets 502.",
        "send WebSockets to a pool with 'protocol: http', by a route with 'websocket: true'",
        websocket_over_http2,
    ),
)
