"""Listeners beside those for clients: redirects, metrics, and Envoy's answers to itself."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from lbgen.targets.common.answers import ANSWERS
from lbgen.targets.envoy.assembly import METRICS_FILE
from lbgen.targets.envoy.language.words import Node, cidr, data, duration, socket, typed
from lbgen.targets.envoy.listeners.filters import OFF
from lbgen.targets.envoy.listeners.listeners import MANAGER, OLD
from lbgen.targets.envoy.listeners.senders import strangers
from lbgen.targets.envoy.listeners.status import ANY, any_cluster, asks_each, ready, ready_route, usable
from lbgen.targets.envoy.pools.clusters import ADMIN
from lbgen.targets.envoy.routes.own import ACME
from lbgen.targets.envoy.routes.route_parts import answer, client_headers, live

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener, Metrics, Pool
    from lbgen.targets.envoy.assembly import Assembly
    from lbgen.units import Address

_FILTER = "envoy.filters.network.http_connection_manager"
_HTTP = "envoy.extensions.filters.http"
_ROUTER: Node = {
    "name": "envoy.filters.http.router",
    "typed_config": typed(f"{_HTTP}.router.v3.Router", suppress_envoy_headers=True),
}
METRICS = "lb:metrics"
INTERNAL: Node = {
    "bootstrap_extensions": [
        {
            "name": "envoy.bootstrap.internal_listener",
            "typed_config": typed("envoy.extensions.bootstrap.internal_listener.v3.InternalListener"),
        }
    ]
}
"""Lets Envoy listen to itself, without a socket."""


def _listener(name: str, addresses: tuple[Address, ...], manager: Node) -> Node:
    node: Node = {"name": name, "address": socket(addresses[0])}
    if addresses[1:]:
        node["additional_addresses"] = [{"address": socket(one)} for one in addresses[1:]]
    return node | {"filter_chains": [{"filters": [{"name": _FILTER, "typed_config": manager}]}]}


def redirect_listeners(made: Assembly) -> Iterator[Node]:
    """Yield a listener for each address from which plain HTTP is sent on."""
    holders: dict[Address, list[Listener]] = {}
    for listener in made.fleet.listeners:
        for address in listener.redirect_from:
            holders.setdefault(address, []).append(listener)
    for number, (address, listeners) in enumerate(holders.items(), 1):
        name = f"redirect-{number}"
        hosts = [_redirect(listener, single=len(listeners) == 1) for listener in listeners]
        manager = typed(
            MANAGER,
            stat_prefix=name,
            http_protocol_options=OLD,
            **strangers("http"),
            normalize_path=True,
            stream_idle_timeout="60s",
            route_config={"name": name, "ignore_port_in_host_matching": True, "virtual_hosts": hosts},
            http_filters=[_ROUTER],
        )
        yield _listener(name, (address,), manager)


def _redirect(listener: Listener, *, single: bool) -> Node:
    port = next((bind.port for bind in listener.binds), 443)
    found: list[Node] = []
    if listener.acme and listener.acme.pool:
        found.append({"match": {"prefix": ACME}, "route": {"cluster": listener.acme.pool, "timeout": "30s"}})
    found.append(
        {
            "#": "308, so that a POST remains a POST.",
            "match": {"prefix": "/"},
            "redirect": {
                "https_redirect": True,
                "port_redirect": port,
                "response_code": "PERMANENT_REDIRECT",
            },
        }
    )
    hosts = ["*"] if single or not listener.hosts else list(listener.hosts)
    told = client_headers() if listener.acme else {}
    return {"name": listener.name, "domains": hosts, **told, "routes": found}


def probing(made: Assembly) -> tuple[list[Node], list[Node]]:
    """Return the listener and the cluster inside Envoy that say of a single pool whether it lives."""
    asked: dict[str, Pool] = {}
    for listener in made.fleet.listeners:
        if asks_each(made, listener):
            asked |= {pool.name: pool for pool in usable(made, listener)}
    pools = _routed(made)
    if made.fleet.metrics and len(pools) > 1:
        asked |= {pool.name: pool for pool in pools}
    if not asked:
        return [], []
    checks = []
    for pool in asked.values():
        host = {"name": ":authority", "string_match": {"exact": pool.name}}
        checks.append(ready(f"lb.ready.{pool.name}", [pool], [host]))
    manager = typed(
        MANAGER,
        stat_prefix=ANY,
        route_config={
            "name": ANY,
            "virtual_hosts": [
                {"name": ANY, "domains": ["*"], "routes": [answer({"prefix": "/"}, ANSWERS["unavailable"])]}
            ],
        },
        http_filters=[*checks, _ROUTER],
    )
    chain = {"filters": [{"name": _FILTER, "typed_config": manager}]}
    inside = {"name": ANY, "internal_listener": {}, "filter_chains": [chain]}
    return [inside], [any_cluster(asked.values())]


def _routed(made: Assembly) -> list[Pool]:
    names = dict.fromkeys(name for listener in made.fleet.listeners for name in listener.pools)
    return [pool for pool in map(made.fleet.pool, names) if pool.has_servers]


def metrics_table(made: Assembly) -> Node:
    """Return the routes of the metrics listener."""
    metrics = made.fleet.metrics
    # Probes know no password, and come from wherever they come.
    guards = [node["name"] for node in _guards(made, metrics)] if metrics else []
    free = {"typed_per_filter_config": dict.fromkeys(guards, OFF)} if guards else {}
    found = [live(made, "/live") | free]
    if len(_routed(made)) > 1:
        found.append(ready_route("/ready") | free)
    action = {"cluster": ADMIN, "prefix_rewrite": "/stats/prometheus", "timeout": "30s"}
    found.append({"match": {"path": "/metrics"}, "route": action})
    found.append(answer({"prefix": "/"}, ANSWERS["not_found"]))
    return {"name": METRICS, "virtual_hosts": [{"name": METRICS, "domains": ["*"], "routes": found}]}


def metrics_listener(made: Assembly, tables: dict[str, Node]) -> Iterator[Node]:
    """Yield the listener with ``/metrics``, ``/live`` and ``/ready``, if the fleet has one."""
    metrics = made.fleet.metrics
    if metrics is None:
        return
    manager = typed(MANAGER, stat_prefix=METRICS, use_remote_address=True, normalize_path=True)
    manager["http_protocol_options"] = OLD
    manager["stream_idle_timeout"] = duration(60_000)
    if made.split:
        source = made.source(f"routes/{METRICS}.yaml")
        manager["rds"] = {"route_config_name": METRICS, "config_source": source}
    else:
        manager["route_config"] = tables[METRICS]
    manager["http_filters"] = [*_metrics_filters(made, metrics), _ROUTER]
    yield _listener(METRICS, metrics.binds, manager) | {"ignore_global_conn_limit": True}


def _metrics_filters(made: Assembly, metrics: Metrics) -> Iterator[Node]:
    pools = _routed(made)
    if len(pools) < 2:
        yield ready("lb.ready", pools, [{"name": ":path", "string_match": {"exact": "/ready"}}])
    yield from _guards(made, metrics)


def _guards(made: Assembly, metrics: Metrics) -> Iterator[Node]:
    """Yield what keeps others away from the figures."""
    allowed = metrics.allow
    if not allowed and all(_is_loopback(bind.host) for bind in metrics.binds):
        allowed = ("127.0.0.0/8", "::1/128")
    if allowed:
        networks = {"or_ids": {"ids": [{"direct_remote_ip": cidr(network)} for network in allowed]}}
        policies = {"allowed": {"permissions": [{"any": True}], "principals": [networks]}}
        rbac = typed(f"{_HTTP}.rbac.v3.RBAC", rules={"action": "ALLOW", "policies": policies})
        yield {"name": "envoy.filters.http.rbac", "typed_config": rbac}
    if metrics.user and metrics.password:
        users = data(made.path(METRICS_FILE))
        basic = typed(f"{_HTTP}.basic_auth.v3.BasicAuth", users=users)
        yield {"name": "envoy.filters.http.basic_auth", "typed_config": basic}


def _is_loopback(host: str) -> bool:
    return host in {"::1", "localhost"} or host.startswith("127.")


def password_line(made: Assembly) -> str:
    """Return the file of the one who may read metrics, as Envoy takes it; empty without a password."""
    metrics = made.fleet.metrics
    if metrics is None or metrics.user is None or metrics.password is None:
        return ""
    digest = hashlib.sha1(made.resolve(metrics.password).encode()).digest()  # noqa: S324 - Envoy takes no other
    return f"{metrics.user}:{{SHA}}{base64.b64encode(digest).decode()}\n"
