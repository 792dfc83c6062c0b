"""Pools as `backend` sections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.model import State
from lbgen.strategies.kv_cache import kv_of
from lbgen.strategies.prefix import prefix_of
from lbgen.targets.haproxy.guards.admin import admin_rules
from lbgen.targets.haproxy.guards.auth import barred_rule
from lbgen.targets.haproxy.language.quoting import quote
from lbgen.targets.haproxy.language.words import duration, refuse, server_address, server_timeout, timeouts
from lbgen.targets.haproxy.pools.checks import check_lines
from lbgen.targets.haproxy.pools.learned import hashed_rules, learned_rules, sticks
from lbgen.targets.haproxy.pools.names import resolvers_name
from lbgen.targets.haproxy.pools.retries import retry_lines, retry_rules
from lbgen.targets.haproxy.pools.server_tls import tls_words
from lbgen.targets.haproxy.pools.sessions import session_rules
from lbgen.targets.haproxy.pools.strategies import balance, server_ids, weight_scale
from lbgen.targets.haproxy.routes.paths import answer_rules
from lbgen.targets.haproxy.routes.responses import served_rules
from lbgen.targets.haproxy.views import Backend, ServerLine, syntax
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Headers, Pool, Route, Server
    from lbgen.strategies.kv_cache import KvParameters
    from lbgen.targets.haproxy.assembly import Assembly


def backends(made: Assembly) -> tuple[Backend, ...]:
    """Return a backend for each pool."""
    numbered = tuple(numbered_routes(made))
    return tuple(_backend(made, pool, numbered) for pool in made.fleet.pools)


def numbered_routes(made: Assembly) -> Iterator[tuple[int, Route]]:
    """Yield every route of every listener with the number that stands for it in `txn.lb_route`."""
    routes = (route for listener in made.fleet.listeners for route in listener.routes)
    return enumerate(routes, 1)


def _backend(made: Assembly, pool: Pool, numbered: tuple[tuple[int, Route], ...]) -> Backend:
    name = Syntax(pool.name)
    raw = syntax(*made.settings.raw.get("backend", ()))
    if not pool.has_servers:
        return Backend(name, (), syntax(refuse("unavailable")), (), raw=raw)
    common = " ".join(_server_words(made, pool))
    dynamic = bool(pool.discover and pool.discover.dns)
    return Backend(
        name,
        syntax(*_settings(made, pool)),
        syntax(*_rules(made, pool, numbered)),
        () if dynamic else _servers(made, pool, common),
        templates=syntax(_server_template(pool, common)) if dynamic else (),
        raw=raw,
    )


def _settings(made: Assembly, pool: Pool) -> Iterator[str]:
    if not made.one_log:
        yield "log global"
    yield from balance(made.fleet, pool, made.settings)
    yield from timeouts(connect=pool.timeouts.connect or 3_000, server=server_timeout(pool.timeouts))
    if _queues(pool):
        yield from timeouts(queue=pool.queue.timeout)
    if not made.whole or any(one.tunnels(route) for one in made.fleet.listeners for route in one.routes):
        yield f"timeout tunnel {duration(pool.timeouts.tunnel or 3_600_000)}"
    yield from retry_lines(pool, made.settings)
    yield from check_lines(made, pool)
    if pool.request_buffering and not (pool.retry.repeats and pool.retry.replay_posts):
        # As much of it as a buffer holds.
        yield "option http-buffer-request"
    if pool.keepalive is None or pool.keepalive.idle == 0:
        yield "option http-server-close"
        yield "http-reuse never"
    if sum(server.backup for server in pool.servers) > 1:
        # Otherwise only the first of them would ever work.
        yield "option allbackups"
    defaults = " ".join(_default_server(pool))
    if defaults:
        yield f"default-server {defaults}"


def _default_server(pool: Pool) -> Iterator[str]:
    if pool.keepalive and pool.keepalive.idle:
        # At every purge half of the idle connections go, rounded up: four purges within the idle
        # time leave hardly one that the server may close first.
        yield f"pool-purge-delay {duration(max(pool.keepalive.idle_timeout // 4, 100))}"
        yield f"pool-max-conn {pool.keepalive.idle}"
        yield f"max-reuse {pool.keepalive.requests}"
    else:
        yield "pool-max-conn 0"
    if _names_hosts(pool):
        # A name that cannot be resolved does not stop the start.
        yield "init-addr last,libc,none"
        if pool.dns.mode == "runtime" or pool.discover:
            yield f"resolvers {resolvers_name(pool)}"


def _names_hosts(pool: Pool) -> bool:
    return bool(pool.discover and pool.discover.dns) or any(server.address.is_name for server in pool.servers)


def _rules(made: Assembly, pool: Pool, numbered: tuple[tuple[int, Route], ...]) -> Iterator[str]:
    yield f"http-request set-var(txn.lb_pool) str({pool.name})"
    yield from barred_rule(made, pool)
    yield from admin_rules(pool)
    yield from _queue_rules(pool)
    yield from session_rules(pool)
    if sticks(made.fleet, pool):
        yield from learned_rules(made.fleet, pool, server_ids(pool))
    elif prefix_of(pool):
        yield from hashed_rules(pool)
    yield from retry_rules(pool)
    if pool.host_header == "backend":
        yield f"http-request set-header Host {made.word(backend_host(pool))}"
    elif pool.host_header != "client":
        yield f"http-request set-header Host {made.word(pool.host_header)}"
    yield from _header_rules(made, pool.headers, "")
    yield from served_rules(made, pool.response_headers, "")
    if any(route.strip_prefix for _, route in numbered if pool.name in route.pools):
        yield "http-request set-var(txn.lb_authority) req.fhdr(host)"
        yield "http-request set-var(txn.lb_known_as) req.fhdr(X-Forwarded-Host)"
    for number, route in numbered:
        if pool.name in route.pools:
            yield from _route_rules(made, route, f" if {{ var(txn.lb_route) -m int {number} }}")


def backend_host(pool: Pool) -> str:
    """Return the servers' common address for `Host`; `limits` has seen to it that there is one."""
    if pool.discover and pool.discover.dns:
        return f"{pool.discover.dns}:{pool.discover.port}"
    return str(pool.servers[0].address)


def _queues(pool: Pool) -> bool:
    """Tell whether requests may ever wait here."""
    return pool.capped or kv_of(pool) is not None  # its agent sets caps while HAProxy runs


def _queue_rules(pool: Pool) -> Iterator[str]:
    if not _queues(pool):
        return
    full = f"queue ge {pool.queue.size}" if pool.queue.size else "be_conn_free eq 0"
    yield f"{refuse('unavailable')} if {{ {full} }}"


def _header_rules(made: Assembly, headers: Headers, condition: str) -> Iterator[str]:
    for name in headers.remove:
        yield f"http-request del-header {quote(name)}{condition}"
    for name, value in headers.set.items():
        yield f"http-request set-header {quote(name)} {made.word(value)}{condition}"


def _route_rules(made: Assembly, route: Route, condition: str) -> Iterator[str]:
    yield from _header_rules(made, route.headers, condition)
    yield from served_rules(made, route.response_headers, condition)
    wait = server_timeout(route.timeouts)
    if wait:
        yield f"http-request set-timeout server {duration(wait)}{condition}"
    for rule in answer_rules(route):
        yield f"{rule}{condition}" if " if " not in rule else f"{rule}{condition.replace(' if', '', 1)}"
    if route.timeouts.tunnel:
        yield f"http-request set-timeout tunnel {duration(route.timeouts.tunnel)}{condition}"


def _server_words(made: Assembly, pool: Pool) -> Iterator[str]:
    """Yield what every server line of the pool has."""
    health = pool.health
    if health:
        yield f"check inter {duration(health.interval)} fall {health.fall} rise {health.rise}"
        if health.port:
            yield f"port {health.port}"
        if pool.passive_health.failures and made.fleet.origins.written((*pool.path, "passive_health")):
            # Connections alone: layer 7 would count a 503 that only says "busy".
            yield f"observe layer4 error-limit {pool.passive_health.failures} on-error mark-down"
    if pool.warmup and health:
        yield f"slowstart {duration(pool.warmup)}"
    yield from tls_words(made, pool)
    if pool.protocol != "http" and not pool.tls:
        yield "proto h2"


def _servers(made: Assembly, pool: Pool, common: str) -> tuple[ServerLine, ...]:
    ids = server_ids(pool)
    watched = kv_of(pool)
    scale = weight_scale(made.fleet, pool)
    lines = []
    for server in pool.servers:
        words = [common] if common else []
        if ids:
            words.append(f"id {ids[server.name]}")
        if watched:
            words.append(_agent(pool, server, watched))
        words += _server_words_of(pool, server, scale)
        parameters = "".join(f" {word}" for word in words)
        lines.append(
            ServerLine(Syntax(server.name), Syntax(server_address(server.address)), Syntax(parameters))
        )
    return tuple(lines)


def _agent(pool: Pool, server: Server, by: KvParameters) -> str:
    # The newline ends the question.
    question = f"{pool.name}/{server.name}\\n"
    where = f"agent-addr {by.agent_host} agent-port {by.agent_port}"
    return f"agent-check {where} agent-inter 1s agent-send {question}"


def _server_words_of(pool: Pool, server: Server, scale: int) -> Iterator[str]:
    weight = server.weight * scale
    if weight == 0 or server.state is State.DRAIN:
        yield "weight 0"
    elif weight != 1:
        yield f"weight {weight}"
    cap = pool.cap(server)
    if cap:
        yield f"maxconn {cap}"
    if server.backup:
        yield "backup"
    if server.state is State.DOWN:
        yield "disabled"


def _server_template(pool: Pool, common: str) -> str:
    discover = pool.discover
    if discover is None:
        raise ValueError("a pool without discovery has no server template")
    cap = f" maxconn {pool.max_in_flight}" if pool.max_in_flight else ""
    address = f"{discover.dns}:{discover.port}"
    return f"server- {discover.max} {address}{cap} {common}".rstrip()
