"""Listeners: those that share an address are one, told apart by host, under TLS by its name as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.answers import ANSWERS
from lbgen.targets.common.listeners import groups
from lbgen.targets.common.paths import compared
from lbgen.targets.envoy.guards.auth import (
    addresses_of,
    auth_of,
    except_of,
    external_changes,
    external_of,
)
from lbgen.targets.envoy.guards.cors import OWNED, cors_headers, cors_policy
from lbgen.targets.envoy.guards.rates import limits_of
from lbgen.targets.envoy.language.words import Node, cidr, duration, header, regex, silence, socket, typed
from lbgen.targets.envoy.listeners.filters import (
    ADDRESSES,
    AUTH,
    CORS,
    EXCEPT,
    EXTERNAL,
    filters,
    reads_bodies,
    tunnels,
)
from lbgen.targets.envoy.listeners.listener_tls import tls_socket
from lbgen.targets.envoy.listeners.senders import senders
from lbgen.targets.envoy.listeners.status import ready_filters
from lbgen.targets.envoy.logs import access_log
from lbgen.targets.envoy.routes.conditions import spelled
from lbgen.targets.envoy.routes.replies import local_replies
from lbgen.targets.envoy.routes.route_parts import answer, answer_changes, client_headers, live
from lbgen.targets.envoy.routes.routes import routes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener
    from lbgen.targets.envoy.assembly import Assembly
    from lbgen.units import Address

MANAGER = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
OLD: Node = {"accept_http_10": True, "default_host_for_http_10": "lb"}
"""HTTP/1.0, which others would get a 426 for: NGINX in front without `proxy_http_version`, and old checks."""
_UPGRADES, _OTHERS = ".*", "(?i)[^w].*|.{0,8}|.{10,}"
"""What `Upgrade` may ask for in vain: anything, or anything but WebSocket."""
_BUFFER = 1_048_576
"""Bytes of a request that are held while a server is tried, or looked at."""
_WINDOW = 1_048_576
"""Bytes that an HTTP/2 client may send before it hears from Envoy again."""


def chains(listeners: tuple[Listener, ...]) -> list[tuple[Listener, ...]]:
    """Return whose requests share a connection: without TLS all, with it each listener's own."""
    plain = tuple(one for one in listeners if not one.tls)
    return ([plain] if plain else []) + [(one,) for one in listeners if one.tls]


def route_tables(made: Assembly) -> Iterator[tuple[str, Node]]:
    """Yield name and routes of every chain of filters; several listeners may lead to the same."""
    known = set()
    for listeners, _ in groups(made.fleet.listeners):
        for sharing in chains(listeners):
            name = table_name(sharing)
            if name not in known:
                known.add(name)
                yield name, table(made, sharing)


def table_name(sharing: tuple[Listener, ...]) -> str:
    """Return the name of a route table, also as part of its file's name."""
    return "+".join(listener.name for listener in sharing)


def listener_nodes(made: Assembly, tables: dict[str, Node]) -> list[Node]:
    """Return every listener of the fleet's; `tables`: where routes stand in the same file."""
    return [
        _listener(made, sharing, addresses, tables) for sharing, addresses in groups(made.fleet.listeners)
    ]


def _listener(
    made: Assembly, listeners: tuple[Listener, ...], addresses: tuple[Address, ...], tables: dict[str, Node]
) -> Node:
    node: Node = {"name": "+".join(one.name for one in listeners) + f"@{addresses[0].port}"}
    node["address"] = socket(addresses[0])
    if addresses[1:]:
        node["additional_addresses"] = [{"address": socket(one)} for one in addresses[1:]]
    node["#"] = (
        "The part of a request that is buffered while it waits or is inspected. Responses are streamed."
    )
    node["per_connection_buffer_limit_bytes"] = _held(made, listeners)
    before = list(_before(listeners))
    if before:
        node["listener_filters"] = before
    node["filter_chains"] = [
        one for sharing in chains(listeners) for one in _chains(made, listeners, sharing, tables)
    ]
    return node


def _held(made: Assembly, listeners: tuple[Listener, ...]) -> int:
    sizes = [one.inspect_body for one in listeners if reads_bodies(made.fleet, one)]
    return max([_BUFFER, *(size + 65_536 for size in sizes)])


def _before(listeners: tuple[Listener, ...]) -> Iterator[Node]:
    package = "envoy.extensions.filters.listener"
    if any(listener.accept_proxy for listener in listeners):
        kind = typed(f"{package}.proxy_protocol.v3.ProxyProtocol")
        yield {"name": "envoy.filters.listener.proxy_protocol", "typed_config": kind}
    if any(listener.tls for listener in listeners):
        kind = typed(f"{package}.tls_inspector.v3.TlsInspector")
        yield {"name": "envoy.filters.listener.tls_inspector", "typed_config": kind}


def _chains(
    made: Assembly, listeners: tuple[Listener, ...], sharing: tuple[Listener, ...], tables: dict[str, Node]
) -> Iterator[Node]:
    """Yield the chain of filters for each kind of senders."""
    first, match = sharing[0], Node()
    if first.tls and first.hosts and (len(listeners) > 1 or len(chains(listeners)) > 1):
        match["server_names"] = list(first.hosts)
    elif first.tls and len(chains(listeners)) > 1:
        match["transport_protocol"] = "tls"
    for some in senders(sharing):
        own = {"direct_source_prefix_ranges": [cidr(one) for one in some.networks]} if some.networks else {}
        node: Node = {"filter_chain_match": {**match, **own}} if match or own else {}
        if first.tls:
            node["transport_socket"] = tls_socket(made, first)
        manager = _manager(made, sharing, some.manager, tables)
        node["filters"] = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
        yield node


def _manager(made: Assembly, sharing: tuple[Listener, ...], told: Node, tables: dict[str, Node]) -> Node:
    """Return what reads requests of these listeners, and through which filters they go."""
    name = table_name(sharing)
    http2 = any(listener.http2 for listener in sharing)
    pools = [pool for listener in sharing for pool in made.fleet.pools_of(listener)]
    waits = [pool.timeouts for pool in pools] + [r.timeouts for one in sharing for r in one.routes]
    silent = [
        spelled(compared(path)) for one in sharing for path in (one.status.live, one.status.ready) if path
    ]
    node = typed(MANAGER, stat_prefix=name, codec_type="AUTO" if http2 else "HTTP1")
    opens = any(map(tunnels, sharing))
    ignored = [regex(_OTHERS if opens else _UPGRADES)]
    node["http_protocol_options"] = {**OLD, "ignore_http_11_upgrade": ignored}
    if opens:
        node["#upgrade"] = "For every route: the first match may be one that only inspects the body."
        node["upgrade_configs"] = [{"upgrade_type": "websocket"}]
    node |= told
    node |= {
        "#paths": "Routes match the normalised path: /%61pi and //api become /api.",
        "normalize_path": True,
        "merge_slashes": True,
        "strip_trailing_host_dot": True,
        "path_with_escaped_slashes_action": "UNESCAPE_AND_FORWARD",
        "#ids": "Keep a client's own request ID if it is safe to log, and return it in the response.",
        "generate_request_id": True,
        "preserve_external_request_id": True,
        "always_set_request_id_in_response": True,
        "server_header_transformation": "PASS_THROUGH",
        "max_request_headers_kb": {"value": -(-max(one.header_size for one in sharing) // 1024)},
        "#times": "No limit on the whole response. Pauses of client and server are limited, before the"
        " first byte as well.",
        "stream_idle_timeout": duration(max(map(silence, waits), default=0) or 600_000),
        "request_headers_timeout": duration(max(one.timeouts.header for one in sharing)),
        "common_http_protocol_options": {
            "idle_timeout": duration(max(one.timeouts.keepalive for one in sharing))
        },
    }
    if http2:
        # No `allow_connect`: a WebSocket within HTTP/2 would reach servers of HTTP/1.1 without the key that
        # they ask for (1.36, 1.40).
        node["http2_protocol_options"] = {
            "initial_stream_window_size": {"value": _WINDOW},
            "initial_connection_window_size": {"value": _WINDOW},
        }
    node["access_log"] = [access_log(made.fleet.logs, "+".join(one.name for one in sharing), silent)]
    node["local_reply_config"] = local_replies()
    probes = [one for listener in sharing for one in ready_filters(made, listener, shared=len(sharing) > 1)]
    node["http_filters"] = [*probes, *filters(made, sharing)]
    if made.split:
        node["rds"] = {
            "route_config_name": name,
            "config_source": made.source(made.place(f"routes/{name}.yaml")),
        }
    else:
        node["route_config"] = tables[name]
    return node


_USUAL_ANSWER = 4_096


def table(made: Assembly, sharing: tuple[Listener, ...]) -> Node:
    """Return the route table of listeners that share their connections."""
    opens = any(map(tunnels, sharing))
    hosts = [_host(made, listener, opens=opens) for listener in sharing]
    if all(listener.hosts for listener in sharing):
        hosts.append(_strangers(made, sharing))
    return {
        "name": table_name(sharing),
        "ignore_port_in_host_matching": True,
        "#headers": "Headers of a route or its pool take precedence over headers of the listener.",
        "most_specific_header_mutations_wins": True,
        "virtual_hosts": hosts,
        **_long_answers(sharing),
    }


def _long_answers(sharing: tuple[Listener, ...]) -> Node:
    """Return the bound on fixed answers where one is beyond Envoy's own, which is 4096 bytes."""
    said = [route.respond.body for one in sharing for route in one.routes if route.respond]
    longest = max((len(body.encode()) for body in said), default=0)
    return {"max_direct_response_body_size_bytes": {"value": longest}} if longest > _USUAL_ANSWER else {}


def _strangers(made: Assembly, sharing: tuple[Listener, ...]) -> Node:
    """Return what hosts get that are nobody's: probes by address are answered, nothing else."""
    paths = dict.fromkeys(one.status.live for one in sharing if one.status.live)
    unknown = "misdirected" if sharing[0].tls else "not_found"
    found = [live(made, path) for path in paths]
    return {
        "name": "lb:unknown",
        "domains": ["*"],
        "routes": [*found, answer({"prefix": "/"}, ANSWERS[unknown])],
    }


def _host(made: Assembly, listener: Listener, *, opens: bool) -> Node:
    node: Node = {"name": listener.name, "domains": list(listener.hosts) or ["*"]}
    per_filter = limits_of(made, listener)
    if listener.auth.clients:
        per_filter[AUTH] = auth_of(made, listener)
    if listener.auth.external:
        per_filter[EXTERNAL] = external_of(listener, listener.auth.external)
    if listener.auth.except_from:
        per_filter[EXCEPT] = except_of(listener)
    if listener.cors.origins:
        per_filter[CORS] = cors_policy(listener.cors)
    if listener.allow or listener.deny:
        per_filter[ADDRESSES] = addresses_of(listener)
    if per_filter:
        node["typed_per_filter_config"] = per_filter
    node |= client_headers(*external_changes(made, listener))
    node |= answer_changes(made, listener.response_headers, _answer_headers(listener))
    if listener.cors.origins:
        node["#cors"] = "CORS headers are set here; those of the servers are removed."
        node["response_headers_to_remove"] = [*OWNED, *node.get("response_headers_to_remove", ())]
    node["routes"] = routes(made, listener, opens=opens)
    return node


def _answer_headers(listener: Listener) -> Iterator[Node]:
    if listener.cors.origins:
        yield from cors_headers(listener.cors)
    if listener.behind_proxy:
        yield header("x-accel-buffering", "no")
    if listener.tls and listener.tls.hsts:
        yield header("strict-transport-security", "max-age=63072000")
