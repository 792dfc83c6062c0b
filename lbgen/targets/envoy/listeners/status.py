"""The ready probe, and the listener for metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.paths import compared
from lbgen.targets.envoy.language.words import Node, typed
from lbgen.targets.envoy.pools.retries import previous_hosts
from lbgen.targets.envoy.routes.conditions import spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.model import Listener, Pool
    from lbgen.targets.envoy.assembly import Assembly

_CHECK = "envoy.extensions.filters.http.health_check.v3.HealthCheck"
ANY = "lb:ready"
"""The listener and the cluster inside Envoy that answer for a single pool."""
EMPTY = "lb:empty"
"""A cluster that there is not."""


def asks_each(made: Assembly, listener: Listener) -> bool:
    """Tell whether a ready probe is answered by asking for one pool after the other.

    Envoy's own check answers 200 only while all of the pools that it names have a living server.
    """
    status = listener.status
    return bool(status.ready) and status.when == "any_pool" and len(usable(made, listener)) > 1


def usable(made: Assembly, listener: Listener) -> list[Pool]:
    """Return the pools of a listener that could serve."""
    return [pool for pool in made.fleet.pools_of(listener) if pool.has_servers]


def ready_filters(made: Assembly, listener: Listener, *, shared: bool) -> Iterator[Node]:
    """Yield the filter that answers a listener's ready probe from what Envoy knows of its pools."""
    path = listener.status.ready
    if not path or asks_each(made, listener):
        return
    headers = [{"name": ":path", "string_match": {"exact": spelled(compared(path))}}]
    if shared and listener.hosts:
        headers.append({"name": ":authority", "string_match": {"exact": listener.hosts[0]}})
    yield ready(f"lb.ready.{listener.name}", made.fleet.pools_of(listener), headers)


def ready(name: str, pools: Iterable[Pool], headers: list[Node]) -> Node:
    """Return a filter that answers 200 while each of the pools has a living server, and else 503."""
    # A cluster that there is not has no living server either. Less than 1 % would be none (1.36, 1.40).
    least = {pool.name if pool.has_servers else EMPTY: {"value": 1} for pool in pools}
    node = typed(_CHECK, pass_through_mode=False, headers=headers)
    return {
        "name": name,
        "typed_config": node | {"cluster_min_healthy_percentages": least or {EMPTY: {"value": 1}}},
    }


def ready_route(path: str) -> Node:
    """Return the route to whom is asked for one pool after the other, until one has a living server."""
    retry = {
        "retry_on": "5xx",
        "num_retries": {"value": 64},
        "retry_host_predicate": [previous_hosts()],
        "host_selection_retry_max_attempts": 64,
        "retry_back_off": {"base_interval": "0.001s"},
    }
    action = {"cluster": ANY, "auto_host_rewrite": True, "timeout": "5s", "retry_policy": retry}
    return {"match": {"path": spelled(compared(path))}, "route": action}


def any_cluster(pools: Iterable[Pool]) -> Node:
    """Return a cluster of Envoy's own answers, one for each pool."""
    inside = {"envoy_internal_address": {"server_listener_name": ANY, "endpoint_id": ""}}
    found = []
    for pool in pools:
        place = {"envoy_internal_address": {**inside["envoy_internal_address"], "endpoint_id": pool.name}}
        found.append({"endpoint": {"address": place, "hostname": pool.name}})
    return {
        "#": "Envoy itself answers whether a pool has an available server; the host names the pool.",
        "name": ANY,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": ANY, "endpoints": [{"lb_endpoints": found}]},
    }
