"""Pools, with the defaults that their engines decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.engines import ENGINES
from lbgen.fields import INVALID
from lbgen.fleet.build.context import items, usable
from lbgen.fleet.build.discovery import discovered
from lbgen.fleet.build.servers import named, servers
from lbgen.fleet.schema import pool as table
from lbgen.fleet.schema.common import HEADERS, RESPONSE_HEADERS, TIMEOUTS
from lbgen.model import (
    Admin,
    Discovery,
    Dns,
    Headers,
    Health,
    Keepalive,
    PassiveHealth,
    Pool,
    Queue,
    Retry,
    Server,
    ServerTls,
    StrategyChoice,
    Timeouts,
)
from lbgen.strategies import session
from lbgen.strategies.registry import DEFAULT_STRATEGY, STRATEGIES
from lbgen.units import is_ip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.engines import Engine
    from lbgen.fleet.build.context import Context
    from lbgen.problems import Path


def pool(context: Context, name: str, written: Mapping[str, Any]) -> Pool:
    """Return the pool that a mapping describes."""
    values = table.POOL.filled(written)
    path = ("pools", name)
    engine = ENGINES[values["engine"]]
    if isinstance(written.get("tls"), dict):
        context.needs_pair(written["tls"], "certificate", "key", (*path, "tls"))
    discovery = _discovery(context, values["discover"], path)
    found = _servers(context, written, discovery, path)
    if any(server.address.is_unix for server in found):
        _complain_about_sockets(context, values, path)
    return Pool(
        name=name,
        engine=engine.name,
        models=tuple(items(values, "models")),
        strategy=strategy(values["strategy"]),
        servers=found,
        max_in_flight=values["max_in_flight"],
        queue=Queue(**table.QUEUE.filled(values["queue"])),
        health=_health(written.get("health", {}), engine),
        passive_health=_passive_health(written.get("passive_health", {})),
        warmup=values["warmup"],
        retry=_retry(written.get("retry", {})),
        timeouts=Timeouts(**TIMEOUTS.filled(values["timeouts"])),
        keepalive=_keepalive(written.get("keepalive", {}), engine),
        tls=_tls(values["tls"]),
        protocol=values["protocol"],
        host_header=values["host_header"],
        header_size=values["header_size"],
        headers=headers(values["headers"]),
        response_headers=response_headers(values["response_headers"]),
        request_buffering=values["request_buffering"],
        dns=_dns(values["dns"]),
        discover=discovery,
        admin=_admin(context, values["admin"], engine, (*path, "admin")),
        allow_empty=values["allow_empty"],
        standby=values["standby"],
        path=path,
    )


def _complain_about_sockets(context: Context, values: Mapping[str, Any], path: Path) -> None:
    """Find what needs a host or a port in a pool of servers some of which have neither."""
    tls, health = usable(values["tls"], None), usable(values["health"], None)
    if isinstance(health, dict) and health.get("port"):
        context.error(
            "key-without-effect", "a Unix socket has no other port to ask", (*path, "health", "port")
        )
    if tls and not (isinstance(tls, dict) and tls.get("server_name")):
        message = "a Unix socket has no name that its certificate could have"
        context.error("missing-key", message, (*path, "tls"), "write 'server_name'")
    if values["host_header"] == "backend":
        message = "a Unix socket has no name that could be its Host"
        context.error(
            "bad-value", message, (*path, "host_header"), "write the name that the servers answer to"
        )
    if usable(values["strategy"], {}).get("name") == "kv_cache":
        message = "the agent reads the metrics of servers at hosts and ports, not at Unix sockets"
        context.error("bad-value", message, (*path, "strategy"), "another strategy, or host:port")


def _admin(context: Context, written: Any, engine: Engine, path: Path) -> Admin:  # noqa: ANN401 - a word or a mapping
    if written == "pass" or (written is None and not engine.admin):
        return Admin(open=True)
    if not engine.admin:
        message = f"no admin paths are known of {engine.title}, so that nothing would be refused"
        context.error(
            "key-without-effect", message, path, "name the pool's 'engine', or write routes", on_key=True
        )
    if not isinstance(written, dict):
        return Admin()
    named = items(written, "clients")
    networks = [name for name in named if is_ip(name.partition("/")[0])]
    single = not context.document.written((*path, "clients", 0))
    for index, name in enumerate(named):
        if name not in networks:
            context.known_client(name, (*path, "clients") if single else (*path, "clients", index))
    clients = tuple(name for name in named if name not in networks)
    return Admin(clients=clients, networks=tuple(networks))


def strategy(written: Mapping[str, Any]) -> StrategyChoice:
    """Return a strategy with its parameters, defaults filled in."""
    name = usable(written.get("name"), DEFAULT_STRATEGY)
    parameters = {
        field.name: usable(written.get(field.name), field.default) for field in STRATEGIES[name].parameters
    }
    return StrategyChoice(name, session.completed(parameters) if name == "session" else parameters)


def headers(written: Mapping[str, Any] | None) -> Headers:
    """Return changes of headers; what was refused is left out, and what is set to nothing is removed."""
    return _changes(HEADERS.filled(written))


def response_headers(written: Mapping[str, Any] | None) -> Headers:
    """Return changes of a response's headers; what was refused is left out."""
    return _changes(RESPONSE_HEADERS.filled(written))


def _changes(values: Mapping[str, Any]) -> Headers:
    settings = {key: value for key, value in values["set"].items() if value is not INVALID}
    emptied = [key for key, value in settings.items() if value == ""]
    kept = {key: value for key, value in settings.items() if value != ""}
    return Headers(kept, tuple(dict.fromkeys([*items(values, "remove"), *emptied])))


def _servers(
    context: Context, written: Mapping[str, Any], discovery: Discovery | None, path: Path
) -> tuple[Server, ...]:
    entries = usable(written.get("servers"), None)
    where = (*path, "servers")
    if discovery is None or discovery.file is None:
        found = servers(context, entries or (), where)
        empty = entries == []
    else:
        where = (*path, "discover", "file")
        drafts = discovered(context, discovery.file, where)
        found = named(context, drafts or [])
        empty = drafts == []
    if empty and not written.get("allow_empty"):
        hint = "name its servers, or write 'allow_empty: true' to have it answer 503"
        context.error("empty-pool", f"the pool '{path[-1]}' has no servers", where, hint)
    return found


def _discovery(context: Context, written: Mapping[str, Any] | None, path: Path) -> Discovery | None:
    if not written:
        return None
    values = table.DISCOVER.filled(written)
    if values["dns"] and "port" not in written:
        message = "'discover' needs the key 'port': a name has addresses, but no port"
        context.error("missing-key", message, (*path, "discover"))
    if values["dns"] is None and values["file"] is None:
        return None
    return Discovery(values["dns"], values["port"], values["max"], values["file"])


def _health(written: Any, engine: Engine) -> Health | None:  # noqa: ANN401 - mapping, "tcp" or None
    if written is None:
        return None
    values = table.HEALTH.filled(written if isinstance(written, dict) else {})
    if written != "tcp":
        values["path"] = values["path"] or engine.health_path
    checked = {key: value for key, value in values["headers"].items() if value is not INVALID}
    return Health(**values | {"headers": checked})


def _passive_health(written: Any) -> PassiveHealth:  # noqa: ANN401 - mapping or None
    values = PassiveHealth(**table.PASSIVE_HEALTH.filled(written or {}))
    return values._replace(failures=0) if written is None else values


def _retry(written: Any) -> Retry:  # noqa: ANN401 - mapping or None
    values = table.RETRY.filled(written or {})
    attempts = 0 if written is None else values["attempts"]
    return Retry(attempts, tuple(items(values, "on")), values["within"], values["replay_posts"])


def _keepalive(written: Any, engine: Engine) -> Keepalive | None:  # noqa: ANN401 - mapping or None
    if written is None:
        return None
    values = table.KEEPALIVE.filled(written or {})
    return Keepalive(values["idle"], values["idle_timeout"] or engine.idle_timeout, values["requests"])


def _tls(written: Any) -> ServerTls | None:  # noqa: ANN401 - mapping, boolean or None
    if written is None or written is False:
        return None
    return ServerTls(**table.TLS.filled(written if isinstance(written, dict) else {}))


def _dns(written: Mapping[str, Any] | None) -> Dns:
    values = table.DNS.filled(written)
    return Dns(values["mode"], tuple(items(values, "resolver")), values["valid"])
