"""From a `Fleet` back to what a fleet file would say, each value with where it came from.

The opposite of `lbgen.fleet.build`: what is written here builds the same fleet again.
Keys stand in the order of the field table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.engines import ENGINES
from lbgen.fields import AutoInteger
from lbgen.fleet.layers.references import SET
from lbgen.fleet.written.leaves import (
    DEFAULT,
    Leaf,
    Remark,
    admin_value,
    binds,
    client_values,
    conditions,
    plain,
    respond_values,
    timeouts_values,
    times,
)
from lbgen.model import Secret
from lbgen.strategies.registry import STRATEGIES
from lbgen.targets.registry import TARGETS
from lbgen.units import format_duration, format_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.fleet.text.source import Document
    from lbgen.model import (
        Auth,
        Client,
        Fleet,
        Headers,
        Limit,
        Listener,
        Pool,
        Route,
        Server,
        TargetSettings,
    )
    from lbgen.problems import Path


class Tree:
    """Makes the tree of a fleet: mappings and lists of mappings, with `Leaf`s at the ends."""

    __slots__ = ("_document",)

    def __init__(self, document: Document) -> None:
        self._document = document

    def fleet(self, fleet: Fleet) -> dict[str, Any]:
        """Return the whole fleet."""
        tree = self._leaves((), {"version": 1, "name": fleet.name})
        tree["balancers"] = self._balancers(fleet)
        tree["pools"] = {pool.name: self._pool(pool) for pool in fleet.pools}
        tree["listeners"] = {listener.name: self._listener(listener) for listener in fleet.listeners}
        if fleet.clients:
            tree["clients"] = {client.name: self._client(client) for client in fleet.clients}
        if fleet.metrics:
            tree["metrics"] = self._metrics(fleet)
        tree["logs"] = self._leaves(("logs",), fleet.logs._asdict())
        tree["targets"] = {settings.name: self._target(settings) for settings in fleet.targets}
        return tree

    def _origin(self, *paths: Path, default: str = DEFAULT) -> str:
        """Return where the first of these paths that is written stands; else `default`."""
        for path in paths:
            if self._document.written(path):
                place = self._document.locate(path)
                if place is not None:
                    return place.file if place.file.startswith(SET) else f"{place.file}:{place.line}"
        return default

    def _leaves(self, path: Path, values: Mapping[str, Any], default: str = DEFAULT) -> dict[str, Any]:
        """Return a leaf for each value that is there."""
        return {
            key: Leaf(plain(value), self._origin((*path, key), default=default))
            for key, value in values.items()
            if value is not None
        }

    def _balancers(self, fleet: Fleet) -> dict[str, Any]:
        path = ("balancers",)
        tree = {"count": Leaf(fleet.balancers.instances, self._origin((*path, "count"), path))}
        return tree | self._leaves(path, {"peers": fleet.balancers.peers})

    def _pool(self, pool: Pool) -> dict[str, Any]:
        path = pool.path
        engine = ENGINES[pool.engine]
        tree = self._leaves(path, {"engine": pool.engine, "models": pool.models})
        tree["strategy"] = self._strategy(pool)
        if pool.discover is None:
            servers = [self._server(server) for server in pool.servers]
            tree["servers"] = servers or Leaf([], self._origin((*path, "servers")))
        tree["max_in_flight"] = self._cap(pool)
        tree["queue"] = self._leaves(
            (*path, "queue"), pool.queue._asdict() | {"timeout": format_duration(pool.queue.timeout)}
        )
        tree["health"] = self._health(pool, engine.health_path)
        tree["passive_health"] = self._passive_health(pool)
        tree["warmup"] = self._switch((*path, "warmup"), pool.warmup and format_duration(pool.warmup))
        tree["retry"] = self._leaves((*path, "retry"), times(pool.retry._asdict(), "within"))
        tree["timeouts"] = self._leaves((*path, "timeouts"), timeouts_values(pool.timeouts))
        tree["keepalive"] = self._keepalive(pool)
        tree["tls"] = self._tls(pool)
        tree |= self._leaves(path, {"protocol": pool.protocol, "host_header": pool.host_header})
        tree |= self._leaves(path, {"header_size": format_size(pool.header_size)})
        for key in ("headers", "response_headers"):
            tree[key] = self._headers((*path, key), getattr(pool, key))
        tree |= self._leaves(path, {"request_buffering": pool.request_buffering})
        tree["dns"] = self._leaves((*path, "dns"), times(pool.dns._asdict(), "valid"))
        if pool.discover is not None:
            tree["discover"] = self._leaves((*path, "discover"), pool.discover._asdict())
        if ENGINES[pool.engine].admin:
            tree |= self._leaves(path, {"admin": admin_value(pool.admin)})
        return tree | self._leaves(path, {"allow_empty": pool.allow_empty, "standby": pool.standby})

    def _cap(self, pool: Pool) -> Any:  # noqa: ANN401 - a leaf or a remark
        if pool.max_in_flight is not None:
            return Leaf(pool.max_in_flight, self._origin((*pool.path, "max_in_flight")))
        engine = ENGINES[pool.engine]
        own = f"; {engine.title} computes {engine.parallelism} at once" if engine.parallelism else ""
        return Remark(Leaf(None, DEFAULT), f"no cap{own}")

    def _passive_health(self, pool: Pool) -> Any:  # noqa: ANN401 - a mapping or a remark
        path = (*pool.path, "passive_health")
        tree = self._leaves(path, times(pool.passive_health._asdict(), "window", "eject"))
        if self._document.written(path):
            return tree
        return Remark(tree, "default, which HAProxy gets only where it is written")

    def _strategy(self, pool: Pool) -> dict[str, Any]:
        path = (*pool.path, "strategy")
        kinds = {field.name: field.kind for field in STRATEGIES[pool.strategy.name].parameters}
        parameters = {
            key: kinds[key].written(value)
            for key, value in pool.strategy.parameters.items()
            if value is not None
        }
        name = Leaf(pool.strategy.name, self._origin((*path, "name"), path))
        return {"name": name} | self._leaves(path, parameters)

    def _server(self, server: Server) -> dict[str, Any]:
        path = server.path
        entry = self._origin(path)
        tree = {
            "address": Leaf(str(server.address), self._origin((*path, "address"), path)),
            "name": Leaf(server.name, self._origin((*path, "name"), default=entry)),
        }
        values = {"weight": server.weight, "max_in_flight": server.max_in_flight, "backup": server.backup}
        return tree | self._leaves(path, values | {"state": server.state.value})

    def _switch(self, path: Path, value: Any) -> Leaf:  # noqa: ANN401 - whatever the key takes
        """Return the leaf of a value that may be switched off."""
        return Leaf(False if value is None else value, self._origin(path))

    def _health(self, pool: Pool, engine_path: str | None) -> Any:  # noqa: ANN401 - a leaf or a mapping
        path = (*pool.path, "health")
        if pool.health is None:
            return self._switch(path, None)
        if pool.health.path is None and engine_path is not None:
            return Leaf("tcp", self._origin(path))
        values = times(pool.health._asdict(), "interval", "timeout")
        tree = self._leaves(path, values)
        if "path" in tree:
            origin = self._origin((*path, "path"), default=f"engine {pool.engine}")
            tree["path"] = tree["path"]._replace(origin=origin)
        return tree

    def _keepalive(self, pool: Pool) -> Any:  # noqa: ANN401 - a leaf or a mapping
        path = (*pool.path, "keepalive")
        if pool.keepalive is None:
            return self._switch(path, None)
        tree = self._leaves(path, times(pool.keepalive._asdict(), "idle_timeout"))
        origin = self._origin((*path, "idle_timeout"), default=f"engine {pool.engine}")
        tree["idle_timeout"] = tree["idle_timeout"]._replace(origin=origin)
        return tree

    def _tls(self, pool: Pool) -> Any:  # noqa: ANN401 - a leaf or a mapping
        path = (*pool.path, "tls")
        if pool.tls is None:
            return self._switch(path, None)
        short = self._origin(path)  # 'tls: true' stands for all of its values
        return self._leaves(path, pool.tls._asdict(), default=short)

    def _headers(self, path: Path, headers: Headers) -> dict[str, Any]:
        return self._leaves(path, {"set": headers.set, "remove": headers.remove})

    def _listener(self, listener: Listener) -> dict[str, Any]:
        path = listener.path
        tree = self._leaves(path, {"bind": binds(listener.binds), "hosts": listener.hosts or None})
        if listener.tls:
            tree["tls"] = self._leaves((*path, "tls"), listener.tls._asdict())
        tree |= self._leaves(path, {"redirect_from": binds(listener.redirect_from)})
        if listener.acme:
            tree["acme"] = self._leaves((*path, "acme"), listener.acme._asdict())
        tree |= self._leaves(path, {"http2": listener.http2, "max_body": format_size(listener.max_body)})
        tree |= self._leaves(path, {"header_size": format_size(listener.header_size)})
        tree["inspect"] = self._leaves((*path, "inspect"), {"body": format_size(listener.inspect_body)})
        values = {
            key: getattr(listener, key)
            for key in ("behind_proxy", "explain", "trusted_proxies", "accept_proxy")
        }
        tree["timeouts"] = self._leaves((*path, "timeouts"), timeouts_values(listener.timeouts))
        tree |= self._leaves(path, values | {"allow": listener.allow or None, "deny": listener.deny or None})
        tree["auth"] = self._auth(listener.auth, (*path, "auth"))
        limits = (*path, "limits")
        tree["limits"] = [self._limit(limit) for limit in listener.limits] or Leaf([], self._origin(limits))
        if listener.cors.origins:
            cors = times(listener.cors._asdict(), "max_age") | {"headers": listener.cors.headers or None}
            tree["cors"] = self._leaves((*path, "cors"), cors)
        tree["response_headers"] = self._headers((*path, "response_headers"), listener.response_headers)
        tree |= self._leaves(path, {"websocket": listener.websocket})
        tree["routes"] = [self._route(route) for route in listener.routes if not route.derived]
        status = listener.status
        probes = {"live": status.live or False, "ready": status.ready or False, "when": status.when}
        off = self._origin((*path, "status")) if not (status.live or status.ready) else DEFAULT
        tree["status"] = self._leaves((*path, "status"), probes, default=off)
        return tree

    def _auth(self, auth: Auth, path: Path) -> Any:  # noqa: ANN401 - a leaf or a mapping
        if not auth.required:
            return Leaf("none", self._origin(path))
        upstream = {"set": auth.upstream} if isinstance(auth.upstream, Secret) else auth.upstream
        tree = self._leaves(
            path, {"clients": auth.clients or None, "header": auth.header, "upstream": upstream}
        )
        tree |= self._leaves(path, {"websocket_protocol": auth.websocket_protocol})
        if auth.external:
            tree["external"] = self._leaves((*path, "external"), auth.external._asdict())
        return tree | self._leaves(path, {"except": auth.except_from})

    def _limit(self, limit: Limit) -> dict[str, Any]:
        values = limit._asdict()
        del values["path"]
        return self._leaves(limit.path, values | {"rate": limit.rate and str(limit.rate)})

    def _route(self, route: Route) -> dict[str, Any]:
        path = route.path
        tree = self._leaves(path, {"name": route.name, **conditions(route.match)})
        tree |= self._leaves(path, {"pool": route.pool, "split": route.split or None})
        if route.respond:
            tree["respond"] = self._leaves((*path, "respond"), respond_values(route))
        kind, _, header = route.split_by.partition(":")
        by = {"header": header} if header else kind
        values = {
            "by": by if route.split else None,
            "when_down": route.when_down,
            "strip_prefix": route.strip_prefix,
            "add_prefix": route.add_prefix or None,
            "priority": route.priority,
        }
        tree |= self._leaves(path, values)
        timeouts = self._leaves((*path, "timeouts"), timeouts_values(route.timeouts))
        if timeouts:
            tree["timeouts"] = timeouts
        for key in ("headers", "response_headers"):
            if any(changes := getattr(route, key)):
                tree[key] = self._headers((*path, key), changes)
        return tree

    def _client(self, client: Client) -> dict[str, Any]:
        one = len(client.keys) == 1 and not self._document.written((*client.path, "keys"))
        return self._leaves(client.path, client_values(client, one))

    def _metrics(self, fleet: Fleet) -> dict[str, Any]:
        metrics = fleet.metrics
        if metrics is None:
            return {}
        tree = self._leaves(metrics.path, {"bind": binds(metrics.binds), "allow": metrics.allow})
        if metrics.user is not None:
            auth = {"user": metrics.user, "password": metrics.password}
            tree["auth"] = self._leaves((*metrics.path, "auth"), auth)
        return tree

    def _target(self, settings: TargetSettings) -> dict[str, Any]:
        table, said, values = TARGETS[settings.name].settings, settings.values, {}
        for field in table.keys.fields:
            value = said[field.name]
            if isinstance(field.kind, AutoInteger) and value is None:
                value = "auto"
            elif value is not None and field.name != "raw":
                value = field.kind.written(value)
            values[field.name] = value or None if field.name == "raw" else value
        tree = self._leaves(settings.path, values)
        for key in table.only_written & tree.keys():
            if not self._document.written((*settings.path, key)):
                tree[key] = Remark(tree[key], "default, which is rendered only where written")
        node = self._document.node((*settings.path, "version"))
        if (node.value if node else str(table.keys.defaults["version"])) != str(settings.version):
            tree["version"] = Leaf(str(settings.version), "--target-version")
        return tree
