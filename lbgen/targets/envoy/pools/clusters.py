"""Pools as clusters, and their servers as endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.model import State
from lbgen.targets.envoy.language.words import UNBOUNDED, Node, duration, header, socket, typed
from lbgen.targets.envoy.pools.health import health_checks, outliers
from lbgen.targets.envoy.pools.server_tls import transport
from lbgen.targets.envoy.pools.strategies import key_headers, policy
from lbgen.targets.envoy.settings import own
from lbgen.units import Address, parse_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.model import Discovery, Fleet, Pool, Server
    from lbgen.targets.envoy.assembly import Assembly

HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
ADMIN = "lb:admin"
"""The cluster that leads to Envoy's own admin port, for the metrics listener."""


def clusters(made: Assembly) -> list[Node]:
    """Return a cluster for each pool, and those that stand for two; routes are made before."""
    found = [_cluster(made, pool) for pool in made.fleet.pools]
    found += [_aggregate(name, pools) for name, pools in sorted(made.aggregates.items())]
    if made.fleet.metrics:
        found.append(_admin(made))
    return found


def by_name(pool: Pool) -> bool:
    """Tell whether a pool's servers are looked up: endpoints of a file have to be addresses."""
    return bool(pool.discover and pool.discover.dns) or any(server.address.is_name for server in pool.servers)


def hosts_told(pools: Iterable[Pool]) -> str:
    """Return the values of `Host` that servers get in place of the client's, each between commas."""
    names = dict.fromkeys(name for pool in pools for name in _hosts_told(pool))
    return f",{','.join(names)},"


def _hosts_told(pool: Pool) -> Iterable[str]:
    if pool.host_header != "backend":
        return () if pool.host_header == "client" else (pool.host_header,)
    if pool.discover and pool.discover.dns:
        return (str(_discovered(pool.discover)),)
    return (str(server.address) for server in pool.servers)


def _discovered(discovery: Discovery) -> Address:
    return Address(discovery.dns or "", discovery.port or 0)


def _cluster(made: Assembly, pool: Pool) -> Node:
    node: Node = {"name": pool.name, **_discovery(made, pool)}
    node["connect_timeout"] = duration(pool.timeouts.connect or 3_000)
    node["load_balancing_policy"] = policy(pool, made.settings)
    node["common_lb_config"] = {
        "#": "If no server is available: 503, instead of a request to one that is down or drained.",
        "healthy_panic_threshold": {"value": 0},
        "#merge": "Checks count within this time; Envoy's own window of 1 s lets most new servers wait.",
        "update_merge_window": "0.1s",
    }
    node["circuit_breakers"] = {"thresholds": [_thresholds(pool)]}
    if made.fleet.metrics:
        node["#stats"] = "Metrics per server, for Prometheus."
        node["track_cluster_stats"] = {"per_endpoint_stats": True}
    node["#hosts"] = "Remove a server at once when it is removed from the file, healthy or not."
    node["ignore_health_on_host_removal"] = True
    node |= health_checks(made, pool)
    node |= outliers(pool)
    node |= transport(made, pool)
    node["typed_extension_protocol_options"] = {HTTP_OPTIONS: _protocol(made.fleet, pool)}
    return node


def _discovery(made: Assembly, pool: Pool) -> Node:
    if by_name(pool):
        node: Node = {
            "#": "Names are resolved periodically, so changed addresses are used.",
            "type": "STRICT_DNS",
            "dns_lookup_family": "V4_PREFERRED",
            "dns_refresh_rate": duration(pool.dns.valid),
            "respect_dns_ttl": False,
        }
        if pool.dns.resolver:
            node["typed_dns_resolver_config"] = _resolver(pool)
        return node | {"load_assignment": endpoints(made, pool)}
    if not made.split:
        return {"type": "STATIC", "load_assignment": endpoints(made, pool)}
    return {
        "type": "EDS",
        "eds_cluster_config": {"eds_config": made.source(made.pool_file(pool))},
    }


def _resolver(pool: Pool) -> Node:
    addresses = [socket(parse_address(text)) for text in pool.dns.resolver]
    kind = "envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig"
    return {"name": "envoy.network.dns_resolver.cares", "typed_config": typed(kind, resolvers=addresses)}


def _thresholds(pool: Pool) -> Node:
    most = _most_requests(pool)
    why = f"Envoy's default limits of 1024 would cause 503{'' if most else '; the fleet sets no limits'}."
    if most:
        why = "For all servers of the pool together; Envoy has no limit per server."
    return {
        "#": why,
        "max_connections": UNBOUNDED,
        "max_pending_requests": UNBOUNDED,
        "max_requests": most or UNBOUNDED,
        "max_retries": UNBOUNDED,
    }


def _most_requests(pool: Pool) -> int:
    """Return what a pool's servers take together; 0: no bound."""
    if pool.discover and pool.discover.dns:
        return 0
    caps = [pool.cap(server) for server in pool.servers if server.state is State.UP and not server.backup]
    return sum(cap for cap in caps if cap) if caps and all(caps) else 0


def _protocol(fleet: Fleet, pool: Pool) -> Node:
    common: Node = {"max_response_headers_kb": {"value": max(1, -(-pool.header_size // 1024))}}
    if pool.keepalive is None:
        common["max_requests_per_connection"] = {"value": 1}
    else:
        common["#"] = "Close idle connections before the servers do, so that no request meets a closing one."
        common["idle_timeout"] = duration(pool.keepalive.idle_timeout)
        common["max_requests_per_connection"] = {"value": pool.keepalive.requests}
    spoken = "http_protocol_options" if pool.protocol == "http" else "http2_protocol_options"
    node = typed(HTTP_OPTIONS, common_http_protocol_options=common, explicit_http_config={spoken: {}})
    made_up = key_headers(fleet, pool)
    if made_up:
        node["http_filters"] = _without(made_up)
    return node


def _without(names: tuple[str, ...]) -> list[Node]:
    """Return the filters of a cluster that take these headers away, when the server is chosen."""
    mutations = {"request_mutations": [{"remove": name} for name in names]}
    removes = typed("envoy.extensions.filters.http.header_mutation.v3.HeaderMutation", mutations=mutations)
    codec = typed("envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec")
    return [
        {"name": "lb.keys", "typed_config": removes},
        {"name": "envoy.filters.http.upstream_codec", "typed_config": codec},
    ]


def endpoints(made: Assembly, pool: Pool) -> Node:
    """Return a pool's servers: those in use, and behind them the backup servers."""
    groups = [[one for one in pool.servers if one.backup is backup] for backup in (False, True)]
    if pool.discover and pool.discover.dns:
        address = _discovered(pool.discover)
        localities: list[Node] = [{"lb_endpoints": [_endpoint(made, pool, address, pool.discover.dns)]}]
    else:
        localities = [
            {"priority": priority, "lb_endpoints": [_server(made, pool, server) for server in servers]}
            for priority, servers in enumerate(filter(None, groups))
        ]
    node: Node = {"cluster_name": pool.name}
    if any(server.backup for server in pool.servers):
        node["#"] = "Use backup servers only if no other server is available."
        node["policy"] = {"overprovisioning_factor": {"value": 100 * max(1, len(groups[0]))}}
    node["endpoints"] = localities
    return node


def _server(made: Assembly, pool: Pool, server: Server) -> Node:
    node = _endpoint(made, pool, server.address, server.name)
    if server.state is State.DRAIN or server.weight == 0:
        node["health_status"] = "DRAINING"
    elif server.state is State.DOWN:
        node["health_status"] = "UNHEALTHY"
    if server.weight > 1:
        node["load_balancing_weight"] = {"value": server.weight}
    return node


def _endpoint(made: Assembly, pool: Pool, address: Address, name: str) -> Node:
    endpoint: Node = {"address": socket(address)}
    if pool.host_header == "backend":
        endpoint["hostname"] = str(address)
    elif pool.tls and not address.is_unix:
        endpoint["hostname"] = address.host.strip("[]")
    if pool.health and pool.health.port:
        endpoint["health_check_config"] = {"port_value": pool.health.port}
    del made
    return {"endpoint": endpoint, "metadata": {"filter_metadata": {"lbgen": {"server": name}}}}


def _aggregate(name: str, pools: tuple[str, str]) -> Node:
    kind = "envoy.extensions.clusters.aggregate.v3.ClusterConfig"
    return {
        "#": f"{pools[0]}, and {pools[1]} while none of its servers is available.",
        "name": name,
        "connect_timeout": "3s",
        "lb_policy": "CLUSTER_PROVIDED",
        "cluster_type": {
            "name": "envoy.clusters.aggregate",
            "typed_config": typed(kind, clusters=list(pools)),
        },
    }


def _admin(made: Assembly) -> Node:
    endpoint = {"endpoint": {"address": socket(own(made.settings).admin)}}
    return {
        "#": "Envoy itself, for the metrics listener.",
        "name": ADMIN,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": ADMIN, "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


def pool_headers(made: Assembly, pool: Pool) -> Iterator[Node]:
    """Yield the headers that a pool's requests get."""
    for name, value in pool.headers.set.items():
        if value:
            yield header(name, made.value(value))
