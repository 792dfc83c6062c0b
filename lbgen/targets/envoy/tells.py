"""What Envoy's own figures say, by pool and by address, and which server has which address."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.engines import ENGINES
from lbgen.model import State
from lbgen.targets.telling import (
    ALIVE,
    ANSWER,
    ANSWERS,
    BY_POOL,
    BY_SERVER,
    CONNECTIONS,
    DRAINED,
    ERRORS,
    IN_FLIGHT,
    OUT,
    QUANTILES,
    QUEUE,
    REQUESTS,
    WAITING,
    Recording,
    Relabel,
    Told,
    caps,
    one_of,
    series,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.model import Fleet, Pool, Server

_POOL, _ADDRESS = "envoy_cluster_name", "envoy_endpoint_address"


def _recordings(fleet: Fleet) -> Iterator[Recording]:
    def of(name: str, *matchers: str) -> str:
        return series(fleet, f"envoy_cluster_{name}", 'pool!=""', *matchers)

    active, pending = (
        f"sum by ({BY_SERVER}) ({of(f'endpoint_{name}')})" for name in ("rq_active", "rq_pending_active")
    )
    # Up to 1.38 Envoy does not tell which requests wait for a connection.
    yield Recording(IN_FLIGHT, f"{active} + {pending} or {active}")
    for pool in fleet.pools:
        yield from caps(fleet, pool, "envoy_cluster_endpoint_healthy")
    used = _healthy_but(fleet, _is_unused)
    yield Recording(OUT, f"1 - min by ({BY_SERVER}) ({used})")
    # A drained server is none of the healthy, too. Envoy tells how many of a pool are drained, and not which.
    up = _healthy_but(fleet, lambda server: server.state is State.DOWN)
    by = f"{BY_POOL}, instance"
    only_drained = f"(sum by ({by}) (1 - {up}) <= bool on ({by}) {of('membership_excluded')})"
    yield Recording(DRAINED, f"max by ({BY_SERVER}) ((1 - {used}) * on ({by}) group_left () {only_drained})")
    yield Recording(REQUESTS, f"sum by ({BY_SERVER}) (rate({of('endpoint_rq_total')}[5m]))")
    yield Recording(ALIVE, f"min by ({BY_POOL}) ({of('membership_healthy')})")
    if any(ENGINES[pool.engine].metrics for pool in fleet.pools):
        yield Recording(QUEUE, f"sum by ({BY_POOL}) ({series(fleet, WAITING)})")
    yield Recording(ANSWERS, f"sum by ({BY_POOL}) (rate({of('upstream_rq_xx')}[5m]))")
    for cause, name, *matchers in _CAUSES:
        yield Recording(ERRORS, f"sum by ({BY_POOL}) (rate({of(name, *matchers)}[5m]))", {"cause": cause})
    rate = f"sum by ({BY_POOL}, le) (rate({of('upstream_rq_time_bucket')}[5m]))"
    for quantile in QUANTILES:
        yield Recording(ANSWER, f"histogram_quantile({quantile}, {rate}) / 1000", {"quantile": quantile})
    process = series(fleet, "envoy_server_total_connections")
    yield Recording(CONNECTIONS, f"sum by (fleet, instance) ({process})")


_CAUSES = (
    ("answers with a status of 5xx", "upstream_rq_xx", 'envoy_response_code_class="5"'),
    ("answers with a status of 4xx", "upstream_rq_xx", 'envoy_response_code_class="4"'),
    ("refused above max_in_flight", "upstream_rq_pending_overflow"),
    ("no server was left", "upstream_cx_none_healthy"),
    ("no connection to a server", "upstream_cx_connect_fail"),
    ("the first byte came too late", "upstream_rq_per_try_timeout"),
    ("the server closed during an answer", "upstream_cx_destroy_remote_with_active_rq"),
    ("the client closed before the end, or a limit of time did", "upstream_cx_destroy_local_with_active_rq"),
    ("tried again", "upstream_rq_retry"),
)
"""By what Envoy counts; a request may be counted under several."""


def _healthy_but(fleet: Fleet, left_out: Callable[[Server], bool]) -> str:
    """Return whether servers are healthy, without some of the fleet file's."""
    names = [server.name for pool in fleet.pools for server in pool.servers if left_out(server)]
    others = [f'server!~"{one_of(names)}"'] if names else []
    return series(fleet, "envoy_cluster_endpoint_healthy", 'pool!=""', *others)


def _is_unused(server: Server) -> bool:
    return server.state is not State.UP or server.weight == 0


def _relabels(fleet: Fleet) -> Iterator[Relabel]:
    """Yield what gives addresses the servers' names: by a rule where they are alike, else one by one."""
    yield Relabel((_ADDRESS,), "(.+)", "$1")
    for pool in fleet.pools:
        hosts = {server.name == server.address.host for server in pool.servers}
        if hosts == {True}:
            yield Relabel((_POOL, _ADDRESS), rf"{re.escape(pool.name)};(.+):\d+", "$1")
            continue
        for server in pool.servers:
            yield from _named(pool, server)


def _named(pool: Pool, server: Server) -> Iterator[Relabel]:
    address = server.address
    if address.is_name and not address.is_unix:
        return  # Envoy tells what the name led to
    place = address.host if address.is_unix else str(address)
    yield Relabel((_POOL, _ADDRESS), f"{re.escape(pool.name)};{re.escape(place)}", server.name)


TELLS = Told(_recordings, pool_label=_POOL, relabels=_relabels)
