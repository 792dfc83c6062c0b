"""Active checks, and ejection by the failures of real requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.model import State
from lbgen.targets.envoy.language.words import Node, duration, header

if TYPE_CHECKING:
    from lbgen.model import Health, Pool
    from lbgen.targets.envoy.assembly import Assembly


def health_checks(made: Assembly, pool: Pool) -> Node:
    """Return a cluster's active check; nothing without one."""
    health = pool.health
    if health is None:
        return {}
    check: Node = {
        "timeout": duration(health.timeout),
        "interval": duration(health.interval),
        "#": "By default Envoy checks a server without traffic only every 60 s.",
        "no_traffic_interval": duration(health.interval),
        "unhealthy_threshold": {"value": health.fall},
        "healthy_threshold": {"value": health.rise},
    }
    check |= {"tcp_health_check": {}} if health.path is None else {"http_health_check": _asks(made, pool)}
    return {"health_checks": [check]}


def _asks(made: Assembly, pool: Pool) -> Node:
    health = pool.health
    if health is None or health.path is None:
        raise ValueError("a pool without a check by HTTP")
    node: Node = {
        "path": health.path,
        "host": check_host(pool),
        "expected_statuses": [{"start": health.expect, "end": health.expect + 1}],
        "#": "Without this list, any other status would take a server out at once, regardless of 'fall'.",
        "retriable_statuses": _others(health),
    }
    if health.headers:
        node["request_headers_to_add"] = [
            header(name, made.value(value)) for name, value in health.headers.items()
        ]
    if pool.protocol != "http" and not health.port:
        node["codec_client_type"] = "HTTP2"
    return node


def _others(health: Health) -> list[Node]:
    ranges = ((100, health.expect), (health.expect + 1, 600))
    return [{"start": start, "end": end} for start, end in ranges if start < end]


def check_host(pool: Pool) -> str:
    """Return the Host of a check: one for all servers."""
    if pool.host_header not in {"client", "backend"}:
        return pool.host_header
    if pool.tls and pool.tls.server_name:
        return pool.tls.server_name
    addresses = [server.address for server in pool.servers]
    # Ollama answers 403 to foreign names when it listens on loopback, and never to this one.
    return str(addresses[0]) if len(addresses) == 1 and not addresses[0].is_unix else "localhost"


def outliers(pool: Pool) -> Node:
    """Return a cluster's ejection by failed connections, resets and timeouts; nothing without."""
    passive = pool.passive_health
    if not passive.failures or not _most_ejected(pool):
        return {}
    return {
        "outlier_detection": {
            "#": "Count connection failures only: a 503 may mean that the server is busy.",
            "split_external_local_origin_errors": True,
            "consecutive_local_origin_failure": {"value": passive.failures},
            "enforcing_consecutive_local_origin_failure": {"value": 100},
            "enforcing_consecutive_5xx": {"value": 0},
            "enforcing_consecutive_gateway_failure": {"value": 0},
            "enforcing_success_rate": {"value": 0},
            "enforcing_local_origin_success_rate": {"value": 0},
            "interval": "1s",
            "base_ejection_time": duration(passive.eject),
            "max_ejection_time": duration(passive.eject),
            "#most": "Keep at least one available server in rotation.",
            "max_ejection_percent": {"value": _most_ejected(pool)},
        }
    }


def _most_ejected(pool: Pool) -> int:
    """Return which share of the pool's servers may be out, in percent of all that it has; 0: none."""
    if pool.discover and pool.discover.dns:
        return 50  # of as many as the name leads to
    serving = [one for one in pool.servers if one.state is State.UP and one.weight and not one.backup]
    return min(50, 100 * (len(serving) - 1) // len(pool.servers)) if len(serving) > 1 else 0
