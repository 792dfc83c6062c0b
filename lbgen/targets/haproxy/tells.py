"""What HAProxy's Prometheus exporter says, and what its tables count beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.pools.learned import counts_decisions
from lbgen.targets.telling import (
    ALIVE,
    ANSWERS,
    BY_POOL,
    BY_SERVER,
    CAP,
    CONNECTIONS,
    DECISIONS,
    DRAINED,
    ERRORS,
    IN_FLIGHT,
    OUT,
    QUEUE,
    REQUESTS,
    WAIT,
    Recording,
    Told,
    series,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.model import Fleet


def _recordings(fleet: Fleet) -> Iterator[Recording]:
    def of(name: str, *matchers: str) -> str:
        return series(fleet, f"haproxy_{name}", 'pool!=""', *matchers)

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
        decisions = series(fleet, "lbgen_decisions_total")
        yield Recording(DECISIONS, f"sum by ({BY_POOL}, decision) (rate({decisions}[5m]))")
    process = series(fleet, "haproxy_process_current_connections")
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


def _pages(fleet: Fleet) -> Mapping[str, str]:
    counted = any(counts_decisions(fleet, pool) for pool in fleet.pools)
    return {"decisions": "/decisions"} if counted else {}


TELLS = Told(_recordings, _pages, pool_label="proxy")
