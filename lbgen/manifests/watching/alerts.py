"""What is worth an alert, from the recorded series, with the fleet's own names and caps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.manifests.watching.scrapes import AGENT, BALANCER, ENGINE, has_certificates
from lbgen.manifests.watching.signals import recordings
from lbgen.strategies.kv_cache import kv_of
from lbgen.targets import telling
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.manifests.order import Order

OFTEN = 0.01
"""The share of requests that fail of which somebody is told."""
NEARLY = 0.9
"""How full a pool, and of its queue, is nearly full."""
DAY_S = 86_400


class Alert(NamedTuple):
    """One alerting rule."""

    name: str
    expr: str
    lasting: str
    """How long it has to hold."""
    severity: str
    summary: str
    description: str
    labels: Mapping[str, str] = {}

    @property
    def rule(self) -> dict[str, Any]:
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.lasting,
            "labels": {"severity": self.severity, **self.labels},
            "annotations": {"summary": self.summary, "description": self.description},
        }


def alerts(order: Order) -> tuple[Alert, ...]:
    """Return the alerts for one target of a fleet: those whose series are recorded."""
    told = {rule.record for rule in recordings(order)}
    return (*_servers(order, told), *_pools(order, told), *_others(order))


def _of(order: Order, name: str, *matchers: str) -> str:
    """Return a series of this fleet."""
    return f"{name}{{{','.join((*matchers, f'fleet={_quoted(order.fleet.name)}'))}}}"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _servers(order: Order, told: set[str]) -> Iterator[Alert]:
    if telling.OUT in told:
        drained = f"max_over_time({_of(order, telling.DRAINED)}[2h]) == 1"
        yield Alert(
            "ServerOut",
            f"{_of(order, telling.OUT)} == 1 unless on ({telling.BY_SERVER}) {drained}",
            "1m",
            "warning",
            "{{ $labels.pool }}/{{ $labels.server }} is out",
            "It takes no requests, and nobody drained it within two hours: look at the engine's log.",
        )
    if TARGETS[order.target].abilities.active_checks:  # without them, it is what says that a server is out
        out = f"{_of(order, telling.OUT)} == 1"
        up = _of(order, "up", f"role={_quoted(ENGINE)}")
        yield Alert(
            "EngineNotRead",
            f"{up} == 0 unless on ({telling.BY_SERVER}) {out}",
            "5m",
            "info",
            "{{ $labels.pool }}/{{ $labels.server }} serves, but its metrics cannot be read",
            "First tokens and KV caches of it are not seen: see the comments in prometheus.yml.",
        )


def _pools(order: Order, told: set[str]) -> Iterator[Alert]:
    if telling.ALIVE in told:
        empty = [pool.name for pool in order.fleet.pools if pool.allow_empty and not pool.servers]
        but = [f"pool!~{_quoted('|'.join(empty).replace('.', '[.]'))}"] if empty else []
        yield Alert(
            "NobodyAtHome",
            f"{_of(order, telling.ALIVE, *but)} == 0",
            "30s",
            "critical",
            "pool {{ $labels.pool }} has no server that can take requests",
            "Its requests fail. Start an engine, or send its requests to another pool.",
        )
    if telling.QUEUE in told:
        yield from _queues(order)
    if telling.CAP in told and telling.IN_FLIGHT in told:
        used, cap = (_of(order, name) for name in (telling.IN_FLIGHT, telling.CAP))
        by = f"sum by ({telling.BY_POOL})"
        yield Alert(
            "PoolNearlyFull",
            f"{by} ({used} and on ({telling.BY_SERVER}) {cap}) / {by} ({cap}) > {NEARLY}",
            "10m",
            "warning",
            "pool {{ $labels.pool }} uses {{ $value | humanizePercentage }} of max_in_flight",
            "More requests would wait. Add servers, or raise max_in_flight where the engines have room.",
        )
    if telling.FIRST_TOKEN in told:
        limit = order.first_token_s
        yield Alert(
            "FirstTokensLate",
            f"{_of(order, telling.FIRST_TOKEN, 'quantile=' + _quoted('0.95'))} > {limit:g}",
            "5m",
            "warning",
            "first tokens of {{ $labels.pool }} come late: P95 {{ $value | humanizeDuration }}",
            f"More than 5 % take longer than {limit:g} s, by the engines' own clocks, which do not see the "
            "balancer's queue. Look for long prompts, full KV caches, and lost prefix caches.",
        )
    if telling.ERRORS in told:
        failed = _of(order, telling.ERRORS, 'cause="answers with a status of 5xx"')
        on = f"on ({telling.BY_POOL})"
        yield Alert(
            "RequestsFail",
            f"{failed} / {on} {_of(order, telling.ANSWERS)} > {OFTEN}",
            "5m",
            "warning",
            "{{ $value | humanizePercentage }} of the requests to {{ $labels.pool }} fail",
            "Answers with a status of 5xx. The dashboard has errors by cause, the access log each request.",
        )


def _queues(order: Order) -> Iterator[Alert]:
    queue = _of(order, telling.QUEUE)
    yield Alert(
        "QueueGrows",
        f"min_over_time({queue}[5m]) > 0 and deriv({queue}[5m]) > 0",
        "5m",
        "warning",
        "the queue of {{ $labels.pool }} grows: {{ $value }} requests at the least",
        "It has not been empty for ten minutes, and grows: more comes in than the servers finish.",
    )
    if not TARGETS[order.target].abilities.queues:
        return  # what waits, waits in the engines, without a limit
    for pool, size in ((pool.name, pool.queue.size) for pool in order.fleet.pools if pool.queue.size):
        yield Alert(
            "QueueNearlyFull",
            f"{_of(order, telling.QUEUE, f'pool={_quoted(pool)}')} > {round(NEARLY * size)}",
            "1m",
            "critical",
            f"{{{{ $value }}}} requests wait for {pool}, of queue.size {size}",
            "When it is full, further requests are refused.",
            {"pool": pool},
        )


def _others(order: Order) -> Iterator[Alert]:
    yield Alert(
        "BalancerNotRead",
        f"{_of(order, 'up', f'role={_quoted(BALANCER)}')} == 0",
        "1m",
        "critical",
        "the balancer at {{ $labels.instance }} does not answer",
        "It is down, or its metrics listener cannot be reached from here.",
    )
    if any(map(kv_of, order.fleet.pools)):
        yield Alert(
            "AgentReadsNothing",
            f"{_of(order, 'lbgen_agent_reading_age_seconds')} > 60"
            f" or {_of(order, 'up', f'role={_quoted(AGENT)}')} == 0",
            "1m",
            "warning",
            "the agent at {{ $labels.instance }} has no new readings",
            "{{ with $labels.server }}Of {{ . }}. {{ end }}HAProxy keeps the last weights and caps.",
        )
    if has_certificates(order):
        left = f"{_of(order, 'probe_ssl_earliest_cert_expiry')} - time()"
        for days, severity in ((14, "warning"), (3, "critical")):
            yield Alert(
                "CertificateNearItsEnd",
                f"{left} < {days * DAY_S}",
                "10m",
                severity,
                "the certificate of {{ $labels.listener }} ends in {{ $value | humanizeDuration }}",
                f"{{{{ $labels.host }}}} at {{{{ $labels.instance }}}} has less than {days} days left. "
                "After its renewal, reload the balancer.",
            )
