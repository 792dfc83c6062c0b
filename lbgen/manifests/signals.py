"""What is recorded of a fleet, under the same names whatever balancer serves it.

A balancer tells some of it, the engines tell the rest; what neither tells is named by `untold`, and is not
estimated. Every series has the label `fleet`, and `pool` and `server` with the fleet's own names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.engines import ENGINES
from lbgen.targets.haproxy.learned import counts_decisions
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lbgen.engines import Metrics
    from lbgen.manifests.order import Order
    from lbgen.model import Fleet, Pool


class Recording(NamedTuple):
    """One recording rule."""

    record: str
    expr: str
    labels: Mapping[str, str] = {}


IN_FLIGHT = "lbgen:server_in_flight"
CAP = "lbgen:server_max_in_flight"
OUT = "lbgen:server_out"
DRAINED = "lbgen:server_drained"
REQUESTS = "lbgen:server_requests:rate5m"
ALIVE = "lbgen:pool_servers_up"
QUEUE = "lbgen:pool_queue"
WAIT = "lbgen:pool_queue_seconds"
ANSWERS = "lbgen:pool_answers:rate5m"
ERRORS = "lbgen:pool_errors:rate5m"
DECISIONS = "lbgen:pool_decisions:rate5m"
CONNECTIONS = "lbgen:balancer_connections"
RUNNING = "lbgen:server_running"
WAITING = "lbgen:server_waiting"
KV_USAGE = "lbgen:server_kv_usage"
FIRST_TOKEN = "lbgen:pool_first_token_seconds"  # noqa: S105 - no password
ANSWER = "lbgen:pool_answer_seconds"
PREFIX_HITS = "lbgen:pool_prefix_hits:ratio5m"

MEANINGS = {
    IN_FLIGHT: "requests in flight by server",
    CAP: "the most requests in flight by server",
    OUT: "whether a server is out",
    DRAINED: "whether a server is drained or in maintenance",
    REQUESTS: "requests a second by server",
    ALIVE: "servers that can take requests, by pool",
    QUEUE: "requests that wait, by pool",
    WAIT: "the mean time that requests waited, by pool",
    ANSWERS: "answers a second by pool",
    ERRORS: "errors a second by pool and cause",
    DECISIONS: "why requests of pools with the strategy prefix went where they went",
    CONNECTIONS: "connections of a balancer",
    RUNNING: "requests that an engine computes",
    WAITING: "requests that wait in an engine",
    KV_USAGE: "the share of an engine's KV cache in use",
    FIRST_TOKEN: "the time to the first token, by pool and quantile",
    ANSWER: "the time of whole answers, by pool and quantile",
    PREFIX_HITS: "the share of prompt tokens that engines found in their prefix caches",
}
"""What each recorded series says."""
OF_ENGINES = (RUNNING, WAITING, KV_USAGE, FIRST_TOKEN, ANSWER, PREFIX_HITS)
"""Those that an engine alone can tell."""
QUANTILES = ("0.5", "0.95", "0.99")
BY_SERVER, BY_POOL = "fleet, pool, server", "fleet, pool"


def recordings(order: Order) -> tuple[Recording, ...]:
    """Return the recording rules for one target of a fleet, in an order in which each finds what it reads."""
    own = _BALANCERS.get(order.target)
    merged: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for rule in (*_engines(order.fleet), *(own(order.fleet) if own else ())):
        merged.setdefault((rule.record, tuple(rule.labels.items())), []).append(rule.expr)
    # Each has other servers; promtool wants one rule for a series.
    return tuple(Recording(name, " or ".join(each), dict(labels)) for (name, labels), each in merged.items())


def untold(order: Order) -> Iterator[str]:
    """Yield what is not recorded because neither the balancer nor the engines tell it, one sentence each."""
    told = {rule.record for rule in recordings(order)}
    title = TARGETS[order.target].title
    capped = any(pool.cap(server) for pool in order.fleet.pools for server in pool.servers)
    homes = any(pool.strategy.name == "prefix" for pool in order.fleet.pools)
    told |= set(OF_ENGINES) | (set() if capped else {CAP}) | (set() if homes else {DECISIONS})
    missing = [MEANINGS[name] for name in MEANINGS if name not in told]
    if missing:
        yield f"{title} does not tell: {'; '.join(missing)}. Its access log does, request by request."
    for name in dict.fromkeys(pool.engine for pool in order.fleet.pools):
        engine = ENGINES[name]
        pools = ", ".join(pool.name for pool in order.fleet.pools if pool.engine == name)
        lacking = [MEANINGS[one] for one in OF_ENGINES if not _tells(engine.metrics, one)]
        if engine.metrics is None:
            yield f"Pool {pools}: no metrics of {engine.title} are known to lbgen."
        elif lacking:
            yield f"Pool {pools}: {engine.title} does not tell: {'; '.join(lacking)}."


def _tells(metrics: Metrics | None, name: str) -> bool:
    return metrics is not None and bool(_NAMES[name](metrics))


_NAMES: Mapping[str, Callable[[Metrics], tuple[str, ...]]] = {
    RUNNING: lambda metrics: metrics.running,
    WAITING: lambda metrics: metrics.waiting,
    KV_USAGE: lambda metrics: metrics.kv_usage,
    FIRST_TOKEN: lambda metrics: metrics.first_token,
    ANSWER: lambda metrics: metrics.answer,
    PREFIX_HITS: lambda metrics: metrics.found,
}


def _engines(fleet: Fleet) -> Iterator[Recording]:
    for name in dict.fromkeys(pool.engine for pool in fleet.pools):
        metrics = ENGINES[name].metrics
        if metrics is not None:
            yield from _engine(fleet, metrics)


def _engine(fleet: Fleet, metrics: Metrics) -> Iterator[Recording]:
    for record, combine in ((RUNNING, "sum"), (WAITING, "sum"), (KV_USAGE, "max")):
        names = _NAMES[record](metrics)
        if names:
            yield Recording(record, _first(f"{combine} by ({BY_SERVER}) ({{}})", fleet, names))
    for record in (FIRST_TOKEN, ANSWER):
        names = tuple(f"{name}_bucket" for name in _NAMES[record](metrics))
        for quantile in QUANTILES if names else ():
            rate = f"histogram_quantile({quantile}, sum by ({BY_POOL}, le) (rate({{}}[5m])))"
            yield Recording(record, _first(rate, fleet, names), {"quantile": quantile})
    rate = f"sum by ({BY_POOL}) (rate({{}}[5m]))"
    ratios = [
        f"{rate.format(_series(fleet, found))} / {rate.format(_series(fleet, looked_up))}"
        for found, looked_up in zip(metrics.found, metrics.looked_up, strict=True)
    ]
    if ratios:
        yield Recording(PREFIX_HITS, " or ".join(ratios))


def _first(around: str, fleet: Fleet, names: tuple[str, ...]) -> str:
    """Return an expression that takes the first name that there is: engines rename their metrics."""
    return " or ".join(around.format(_series(fleet, name)) for name in names)


def _series(fleet: Fleet, name: str, *matchers: str) -> str:
    """Return a metric of this fleet; its name may have matchers of its own."""
    bare, _, own = name.rstrip("}").partition("{")
    return f"{bare}{{{','.join(filter(None, (own, *matchers, _of(fleet))))}}}"


def _of(fleet: Fleet) -> str:
    return f'fleet="{fleet.name}"'


def _haproxy(fleet: Fleet) -> Iterator[Recording]:
    def of(name: str, *matchers: str) -> str:
        return _series(fleet, f"haproxy_{name}", 'pool!=""', *matchers)

    yield Recording(IN_FLIGHT, f"sum by ({BY_SERVER}) ({of('server_current_sessions')})")
    # NaN where there is no cap, which no comparison lets through.
    yield Recording(CAP, f"sum by ({BY_SERVER}) ({of('server_limit_sessions')} > 0)")
    down, aside = of("server_status", 'state="DOWN"'), of("server_status", 'state=~"DRAIN|MAINT"')
    yield Recording(OUT, f"max by ({BY_SERVER}) ({down})")
    unused = f"{of('server_uweight')} == bool 0"
    yield Recording(DRAINED, f"max by ({BY_SERVER}) ({aside} or ({unused}))")
    yield Recording(REQUESTS, f"sum by ({BY_SERVER}) (rate({of('server_http_responses_total')}[5m]))")
    alive = f"{of('backend_active_servers')} + {of('backend_backup_servers')}"
    yield Recording(ALIVE, f"min by ({BY_POOL}) ({alive})")
    # Requests wait for any server of the pool, or for the one that they are bound to.
    queues = (f"sum by ({BY_POOL}) ({of(f'{level}_current_queue')})" for level in ("backend", "server"))
    yield Recording(QUEUE, " + ".join(queues))
    yield Recording(WAIT, f"avg by ({BY_POOL}) ({of('backend_queue_time_average_seconds')})")
    yield Recording(ANSWERS, f"sum by ({BY_POOL}) (rate({of('backend_http_responses_total')}[5m]))")
    for cause, name, *matchers in _CAUSES:
        expr = f"sum by ({BY_POOL}) (rate({of(f'backend_{name}_total', *matchers)}[5m]))"
        yield Recording(ERRORS, expr, {"cause": cause})
    if any(counts_decisions(fleet, pool) for pool in fleet.pools):
        decisions = _series(fleet, "lbgen_decisions_total")
        yield Recording(DECISIONS, f"sum by ({BY_POOL}, decision) (rate({decisions}[5m]))")
    process = _series(fleet, "haproxy_process_current_connections")
    yield Recording(CONNECTIONS, f"sum by (fleet, instance) ({process})")


_CAUSES = (
    ("answers with a status of 5xx", "http_responses", 'code="5xx"'),
    ("answers with a status of 4xx", "http_responses", 'code="4xx"'),
    ("refused by a rule of the pool, such as a full queue", "requests_denied"),
    ("no connection to a server", "connection_errors"),
    ("a server's answer that is no HTTP, or breaks off", "response_errors"),
    ("the server closed during an answer", "server_aborts"),
    ("the client closed before the end", "client_aborts"),
    ("tried again on the same server", "retry_warnings"),
    ("tried again on another server", "redispatch_warnings"),
)
"""By what HAProxy counts; a request may be counted under several."""


def _nginx(fleet: Fleet) -> Iterator[Recording]:
    """Yield what `stub_status` tells; servers and pools as their engines tell of them."""
    told = {name: ENGINES[name].metrics for name in dict.fromkeys(pool.engine for pool in fleet.pools)}
    known = [metrics for metrics in told.values() if metrics is not None]
    if any(metrics.running and metrics.waiting for metrics in known):
        yield Recording(IN_FLIGHT, " + ".join(_series(fleet, name) for name in (RUNNING, WAITING)))
    if any(metrics.waiting for metrics in known):
        yield Recording(QUEUE, f"sum by ({BY_POOL}) ({_series(fleet, WAITING)})")
    for metrics in known:
        if metrics.finished:
            expr = _first(f"sum by ({BY_SERVER}) (rate({{}}[5m]))", fleet, metrics.finished)
            yield Recording(REQUESTS, expr)
    if known:
        engine = 'role="engine"'
        up, used = _series(fleet, "up", engine), _series(fleet, "up", engine, 'state=""')
        unused = _series(fleet, "up", engine, 'state!=""')
        yield Recording(OUT, f"1 - max by ({BY_SERVER}) ({up})")
        yield Recording(DRAINED, f"max by ({BY_SERVER}) ({unused} >= bool 0)")
        yield Recording(ALIVE, f"sum by ({BY_POOL}) ({used})")
        for pool in fleet.pools:
            if told[pool.engine] is not None:
                yield from _caps(fleet, pool)
    active = _series(fleet, "nginx_connections_active")
    yield Recording(CONNECTIONS, f"sum by (fleet, instance) ({active})")


def _caps(fleet: Fleet, pool: Pool) -> Iterator[Recording]:
    """Yield the fleet's own caps, for a balancer that does not tell them."""
    by_cap: dict[int, list[str]] = {}
    for server in pool.servers:
        cap = pool.cap(server)
        if cap is not None:
            by_cap.setdefault(cap, []).append(server.name)
    for cap, names in by_cap.items():
        one_of = "|".join(name.replace(".", "[.]") for name in names)
        matchers = f'role="engine",pool="{pool.name}",server=~"{one_of}"'
        yield Recording(CAP, f"0 * max by ({BY_SERVER}) ({_series(fleet, 'up', matchers)}) + {cap}")


_BALANCERS: Mapping[str, Callable[[Fleet], Iterator[Recording]]] = {"haproxy": _haproxy, "nginx": _nginx}
"""What each target's own metrics are called."""
