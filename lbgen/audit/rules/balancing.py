"""How requests are shared, how many servers take, and what waits."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from lbgen.audit.haproxy_view import milliseconds
from lbgen.audit.rule import AuditRule, Finding
from lbgen.audit.values import number
from lbgen.fleet.rules.rule import spoken
from lbgen.problems import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.audit.haproxy_view import HaproxyView, Pool
    from lbgen.audit.nginx_view import NginxView
    from lbgen.readers.haproxy import Line


def _zone(view: NginxView) -> Iterator[Finding]:
    if view.workers < 2:
        return
    for upstream in view.upstreams:
        capped = any(server.parameter("max_conns") for server in upstream.servers)
        hashed = upstream.method is not None and upstream.method.name in {"hash", "ip_hash"}
        if upstream.directive.inside("zone") or not (capped or (len(upstream.active) > 1 and not hashed)):
            continue
        what = "balances and counts failures separately"
        if capped:
            what += ", and 'max_conns' applies to each process separately"
        yield Finding(
            upstream.directive.location,
            f"'{upstream.name}' has no zone: each worker process {what}, so long requests may pile up on"
            " one GPU while others are idle",
            f"zone {upstream.name} 64k;",
        )


ZONE = AuditRule(
    "workers-without-zone",
    Severity.ERROR,
    "worker processes balance independently of each other",
    "Eight workers distributed 16 parallel requests over 4 servers as 9, 4, 2 and 1; with a zone as 4,"
    " 4, 4 and 4 (NGINX 1.22.1). Distributions and images set `worker_processes auto`, so this is assumed"
    " for a fragment.",
    "gives each upstream a zone of sufficient size",
    _zone,
)


def _nginx_round_robin(view: NginxView) -> Iterator[Finding]:
    for upstream in view.upstreams:
        if upstream.method is None and len(upstream.active) > 1 and not view.generated:
            yield Finding(
                upstream.directive.location,
                f"'{upstream.name}' uses round robin (the default): a GPU that is still generating long"
                " responses gets its next request anyway, while other GPUs are idle",
                "least_conn;",
            )


def _haproxy_round_robin(view: HaproxyView) -> Iterator[Finding]:
    for pool in view.pools:
        line = pool.section.last("balance")
        method = line.words[1] if line and len(line.words) > 1 else "roundrobin"
        if method in {"roundrobin", "static-rr"} and pool.size > 1 and not view.generated:
            by = "" if line else ", the default"
            yield Finding(
                (line or pool.section.head).location,
                f"'{pool.name}' uses round robin ({method}{by}): a GPU that is still generating long"
                " responses gets its next request anyway, while other GPUs are idle",
                "balance leastconn",
            )


ROUND_ROBIN = AuditRule(
    "round-robin-generations",
    Severity.WARNING,
    "round robin is used for requests of unequal cost",
    "One request may cost a hundred times as much as another. The number of requests in flight reflects"
    " this cost; round robin does not.",
    "uses the fewest requests in flight ('least_conn') unless the fleet sets another strategy",
    _nginx_round_robin,
    _haproxy_round_robin,
)


def _nginx_addresses(view: NginxView) -> Iterator[Finding]:
    told = bool(list(view.whole.directives("set_real_ip_from")))
    for upstream in view.upstreams:
        method = upstream.method
        by_address = method is not None and (
            method.name == "ip_hash" or method.value in {"$remote_addr", "$binary_remote_addr"}
        )
        if (
            method is not None
            and by_address
            and len(upstream.servers) > 1
            and not told
            and not view.generated
        ):
            first = " (the first three octets of an IPv4 address)" if method.name == "ip_hash" else ""
            yield Finding(
                method.location,
                f"'{upstream.name}' selects a server by the client's address{first}: all clients behind"
                " one gateway, office or proxy get the same GPU, while others are idle",
                "least_conn; or hash $http_x_session_id consistent; for conversations",
            )


def _haproxy_addresses(view: HaproxyView) -> Iterator[Finding]:
    for pool in view.pools:
        line = pool.section.last("balance")
        stick = [one for one in pool.section.own("stick", "on") if "src" in one.words[2:3]]
        by_source = line is not None and (
            line.words[1:2] == ("source",) or line.words[1:3] == ("hash", "src")
        )
        known = any(
            front.own("http-request", "set-src")
            or any("accept-proxy" in bind.words for bind in front.own("bind"))
            for front in pool.fronts
        )
        place = line if by_source else stick[0] if stick else None
        if place is not None and pool.size > 1 and not known and not view.generated:
            yield Finding(
                place.location,
                f"'{pool.name}' selects a server by the client's address: all clients behind one gateway,"
                " office or proxy get the same GPU, while others are idle",
                "balance leastconn, or balance hdr(X-Session-Id) with hash-type consistent for conversations",
            )


ONE_ADDRESS = AuditRule(
    "hash-of-one-address",
    Severity.WARNING,
    "servers are selected by an address that many clients may share",
    "An agent, a batch job or a chat front end sends all its requests from one address. Behind another"
    " proxy, all clients have the same address.",
    "uses a session header or the beginning of the prompt, and limits the load of each server",
    _nginx_addresses,
    _haproxy_addresses,
)


def _full(view: NginxView) -> Iterator[Finding]:
    for upstream in view.upstreams:
        capped = [server for server in upstream.servers if server.parameter("max_conns")]
        handled = all(
            any("502" in page.args for page in one.level.all("error_page"))
            for one in view.passes_to(upstream)
        )
        if capped and not handled:
            yield Finding(
                capped[0].location,
                f"NGINX has no queue: when all servers of '{upstream.name}' have max_conns requests in"
                " flight, the next request gets a 502, as if a server had failed",
                "error_page 502 =503 @busy; where @busy returns 503 with Retry-After; or use HAProxy,"
                " which queues",
                Severity.WARNING,
            )


def _queue(view: HaproxyView) -> Iterator[Finding]:
    for pool in () if view.is_fragment else view.pools:
        capped = any(server.parameter("maxconn") not in {None, "0"} for server in pool.servers)
        line = pool.section.last("timeout", "queue")
        connect, _ = milliseconds(pool.section, "connect")
        if line is None and capped:
            wait = f"'timeout connect' ({spoken(connect)})" if connect else "'timeout connect'"
            yield Finding(
                pool.section.location,
                f"no 'timeout queue' for '{pool.name}': {wait} limits how long a request may wait in the"
                " queue, and under load clients get 503",
                "timeout queue 1m, and maxqueue on the servers",
            )
        elif not capped and line is None and _no_bound(pool):
            yield Finding(
                pool.section.location,
                f"the number of waiting requests of '{pool.name}' has no limit: each request goes to an"
                " engine at once and waits there; it cannot move to a GPU that becomes free, and no client"
                " is told to retry later",
                "default-server maxconn 64 (the engine's slots) and timeout queue 1m",
            )


def _no_bound(pool: Pool) -> bool:
    return not any(front.own("maxconn") for front in pool.fronts)


QUEUE = AuditRule(
    "no-queue-bound",
    Severity.WARNING,
    "the number of waiting requests has no limit, or requests above the limit get the wrong status",
    "Engines accept far more requests than they process at once. The others wait inside the engine, on a"
    " server that was selected too early.",
    "sets 'timeout queue' (HAProxy), and 'maxconn' where the fleet sets 'max_in_flight'; NGINX returns"
    " 503 with Retry-After",
    _full,
    _queue,
)


def _counted_twice(view: HaproxyView) -> Iterator[Finding]:
    seen: dict[str, list[tuple[str, Line]]] = defaultdict(list)
    for pool in view.pools:
        for server in pool.servers:
            if (number(server.parameter("maxconn")) or 0) > 0:
                seen[server.address].append((pool.name, server.line))
    for address, places in seen.items():
        names = list(dict.fromkeys(name for name, _ in places))
        if len(names) > 1:
            yield Finding(
                places[1][1].location,
                f"{address} is in {len(names)} backends ({', '.join(names)}), each with its own maxconn:"
                " the GPU may get the sum of these",
                "define the server in one backend, and point use_backend rules to it",
            )


COUNTED_TWICE = AuditRule(
    "cap-counted-twice",
    Severity.WARNING,
    "one server has a maxconn in several backends",
    "`maxconn` applies to one server line. Two lines with 8 allow 16 requests.",
    "renders one backend per pool, used by all its routes, and warns about addresses in several pools",
    haproxy=_counted_twice,
)


def _streams(view: NginxView) -> Iterator[Finding]:
    for upstream in view.streams:
        if len(upstream.active) > 1:
            yield Finding(
                upstream.directive.location,
                f"'{upstream.name}' is balanced by connection (stream): all requests of a client that"
                " reuses its connection, as SDKs do, go to one GPU, and errors close the connection",
                "the same upstream and server in http, with location / and proxy_pass",
            )


def _tcp(view: HaproxyView) -> Iterator[Finding]:
    for pool in view.pools:
        mode = pool.section.last("mode")
        if (mode is None and view.is_fragment) or pool.size < 2:
            continue
        if pool.is_tcp:
            by = "by default" if mode is None else "as written"
            yield Finding(
                (mode or pool.section.head).location,
                f"'{pool.name}' is balanced by connection (mode tcp, {by}): all requests of a client that"
                " reuses its connection, as SDKs do, go to one GPU, and errors close the connection",
                "mode http (in defaults)",
            )


TCP = AuditRule(
    "balanced-by-connection",
    Severity.ERROR,
    "connections are balanced instead of requests",
    "Six requests over one connection all went to the same one of two servers (HAProxy 2.6.12). The"
    " fault is easy to miss, since even HTTP health checks work in this mode.",
    "balances requests",
    _streams,
    _tcp,
)


def _connections(view: NginxView) -> Iterator[Finding]:
    for said, level in view.whole.directives("worker_connections"):
        value = number(said.value)
        if level.block.name == "events" and value is not None and value < 1024 and view.passes:
            yield Finding(
                said.location,
                f"a worker has {value} connections, and each stream uses two of them for minutes: with"
                f" {value // 2} streams it accepts no further clients",
                "worker_connections 8192; with worker_rlimit_nofile 16384;",
                Severity.ERROR if value < 128 else Severity.WARNING,
            )


CONNECTIONS = AuditRule(
    "few-connections",
    Severity.WARNING,
    "worker_connections is too small for many streams",
    "Distributions set 768, which is enough for web pages but not for responses that take a minute.",
    "sets 8192, and enough open files for these",
    _connections,
)

RULES = (ZONE, ROUND_ROBIN, ONE_ADDRESS, QUEUE, COUNTED_TWICE, TCP, CONNECTIONS)
