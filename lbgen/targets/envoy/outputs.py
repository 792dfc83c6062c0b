"""From a fleet to the files of Envoy.

Envoy reads one file at its start, and watches all others: who replaces one of them changes what runs,
without a restart. A file that holds a secret stands below ``secrets/``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.targets.common.answers import ANSWERS, files_mark, live_body
from lbgen.targets.common.paths import LISTED, lua_pattern, model_paths
from lbgen.targets.common.service import drop_in
from lbgen.targets.envoy.assembly import (
    BODY_SCRIPT,
    EXTERNAL_SCRIPT,
    KEYS_SCRIPT,
    METRICS_FILE,
    SUBPATH_SCRIPT,
    Assembly,
)
from lbgen.targets.envoy.features import has
from lbgen.targets.envoy.guards.auth import digests, external_clusters, upstream_values, value_name
from lbgen.targets.envoy.language.words import Node, socket, typed
from lbgen.targets.envoy.language.yaml_lines import lines, quote, quote_lua
from lbgen.targets.envoy.listeners.filters import SCRIPTS, reads_bodies, takes_off
from lbgen.targets.envoy.listeners.inner import (
    INTERNAL,
    metrics_listener,
    metrics_table,
    password_line,
    probing,
    redirect_listeners,
)
from lbgen.targets.envoy.listeners.listeners import listener_nodes, route_tables
from lbgen.targets.envoy.logs import LEVELS
from lbgen.targets.envoy.pools.clusters import by_name, clusters, endpoints
from lbgen.targets.envoy.settings import own
from lbgen.targets.spec import Output, Syntax

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lbgen.model import Fleet, Pool, TargetSettings
    from lbgen.targets.spec import Part, Secrets

ONE_FILE = "all-in-one"
"""The part that is the whole configuration in a single file, and scripts beside it."""
_FILES = 65_536
"""Files and connections that the service may open, at least."""


class Item(NamedTuple):
    """A listener, a cluster, a route table or a pool's servers as lines."""

    kind: Syntax
    lines: tuple[Syntax, ...]
    raw: tuple[Syntax, ...] = ()


class _Whole:
    """All nodes of a configuration; routes first, since they name the clusters that stand for two pools."""

    def __init__(self, made: Assembly) -> None:
        self.made = made
        self.tables: dict[str, Node] = {}
        self.hidden: set[str] = set()
        made.took_secrets()
        for name, table in route_tables(made):
            self.tables[name] = table
            if made.took_secrets():
                self.hidden.add(name)
            made.file(f"routes/{name}.yaml", hidden=name in self.hidden)
        inside, around = probing(made)
        if made.fleet.metrics:
            table = metrics_table(made)
            self.tables[table["name"]] = table
        self.clusters = [*clusters(made), *external_clusters(made), *around]
        self.hides_clusters = made.took_secrets()
        made.file("clusters.yaml", hidden=self.hides_clusters)
        self.listeners = [
            *listener_nodes(made, self.tables),
            *redirect_listeners(made),
            *metrics_listener(made, self.tables),
            *inside,
        ]


def outputs(fleet: Fleet, part: Part, secrets: Secrets) -> tuple[Output, ...]:
    """Return the files to render, the main file first."""
    if part.whole and own(fleet.target("envoy")).in_one_file:
        part = part._replace(name=ONE_FILE)
    made = Assembly(fleet, secrets, split=part.whole)
    whole = _Whole(made)
    if part.name == "upstreams":
        context = {"part": part.name, "clusters": _items(made, "cluster", whole.clusters), "listeners": ()}
        return (Output("clusters.yaml", "envoy/static.yaml.j2", context, secret=whole.hides_clusters),)
    if not made.split:
        return (_static(whole, part), *_scripts(made))
    hidden = whole.hides_clusters
    return (
        Output("envoy.yaml", "envoy/envoy.yaml.j2", _bootstrap(made)),
        _watched(made, made.place("clusters.yaml"), "cluster", whole.clusters, secret=hidden),
        *(
            _watched(made, made.pool_file(pool), "endpoints", [endpoints(made, pool)])
            for pool in _by_file(made)
        ),
        *_tables(whole),
        *_scripts(made),
        _watched(made, "listeners.yaml", "listener", whole.listeners),
        drop_in("envoy.service", made.settings.directory, _descriptors(made.settings)),
    )


_KINDS = {
    "listener": "envoy.config.listener.v3.Listener",
    "cluster": "envoy.config.cluster.v3.Cluster",
    "routes": "envoy.config.route.v3.RouteConfiguration",
    "endpoints": "envoy.config.endpoint.v3.ClusterLoadAssignment",
}


def _items(made: Assembly, kind: str, nodes: Iterable[Node]) -> tuple[Item, ...]:
    raw = tuple(map(Syntax, made.settings.raw.get(kind, ())))
    name = Syntax(f"type.googleapis.com/{_KINDS[kind]}")
    return tuple(Item(name, lines(node), raw) for node in nodes)


def _watched(made: Assembly, path: str, kind: str, nodes: Iterable[Node], *, secret: bool = False) -> Output:
    version = "" if secret else Syntax(files_mark(made.fleet.digest))
    context = {"kind": kind, "version": version, "items": _items(made, kind, nodes)}
    return Output(path, "envoy/watched.yaml.j2", context, secret=secret)


def _tables(whole: _Whole) -> Iterator[Output]:
    for name, table in whole.tables.items():
        path = whole.made.place(f"routes/{name}.yaml")
        yield _watched(whole.made, path, "routes", [table], secret=name in whole.hidden)


def _by_file(made: Assembly) -> Iterator[Pool]:
    return (pool for pool in made.fleet.pools if not by_name(pool))


def _static(whole: _Whole, part: Part) -> Output:
    made = whole.made
    context = _bootstrap(made) | {
        "part": part.name,
        "listeners": _items(made, "listener", whole.listeners),
        "clusters": _items(made, "cluster", whole.clusters),
    }
    secret = whole.hides_clusters or bool(whole.hidden)
    return Output("envoy.yaml", "envoy/static.yaml.j2", context, secret=secret)


def _bootstrap(made: Assembly) -> dict[str, object]:
    settings = made.settings
    return {
        "name": quote(made.fleet.name),
        "settings_version": Syntax(settings.version),
        "mark": Syntax(live_body(made.fleet.digest)),
        "admin": lines({"address": socket(own(settings).admin), "ignore_global_conn_limit": True}, 2),
        "runtime": lines(_runtime(made), 8),
        "sources": lines(
            {
                "cds_config": made.source(made.place("clusters.yaml")),
                "lds_config": made.source("listeners.yaml"),
            },
            2,
        ),
        # Also where one pool needs none: a second one comes without a restart.
        "internal": lines({**INTERNAL, **_overload(settings)}),
        "command": Syntax(_command(made)),
        "raw": tuple(map(Syntax, settings.raw.get("bootstrap", ()))),
    }


def _descriptors(settings: TargetSettings) -> int:
    return max(_FILES, 3 * own(settings).max_connections)


def _overload(settings: TargetSettings) -> Node:
    """Return the bound on connections of clients; a fleet's own overload manager goes first."""
    if any(line.startswith("overload_manager:") for line in settings.raw.get("bootstrap", ())):
        return {}
    most = own(settings).max_connections
    kind = "envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig"
    monitor = {
        "name": "envoy.resource_monitors.global_downstream_max_connections",
        "typed_config": typed(kind, max_active_downstream_connections=most),
    }
    why = "Clients' connections, all together: more are closed at once, and leave descriptors for servers."
    return {"#clients": why, "overload_manager": {"resource_monitors": [monitor]}}


def _runtime(made: Assembly) -> Node:
    node: Node = {
        "#": "Without this, Envoy refuses regular expressions of more than 100 steps.",
        "re2.max_program_size.error_level": 100_000,
    }
    if has(made.settings.version, "counts_pending_requests"):
        node["#pending"] = (
            "Count requests that wait for a connection as well, so that a burst is distributed."
        )
        node["envoy.reloadable_features.least_request_lb_count_pending_requests"] = True
    return node


def _command(made: Assembly) -> str:
    settings = made.settings
    seconds = -(-settings.drain_timeout // 1_000)
    words = [f"envoy -c {made.path('envoy.yaml')}", f"--drain-time-s {seconds}"]
    words.append(f"--parent-shutdown-time-s {seconds + 60}")
    if own(settings).workers:
        words.append(f"--concurrency {own(settings).workers}")
    return " ".join([*words, f"--log-level {LEVELS[made.fleet.logs.level]}"])


def _scripts(made: Assembly) -> Iterator[Output]:
    """Yield the scripts, in files of their own, and the password file."""
    if any(reads_bodies(made.fleet, listener) for listener in made.fleet.listeners):
        yield _script(made, BODY_SCRIPT, "envoy/body.lua.j2", _body_context(made))
    if any(listener.auth.clients for listener in made.fleet.listeners):
        context = {
            "answers": _answers("unauthorized", "bad_request"),
            "keys": tuple(Pair(Syntax(key), quote_lua(name)) for key, name in digests(made).items()),
            "values": tuple(
                Pair(Syntax(value_name(made, secret)), quote_lua(f"Bearer {made.resolve(secret)}"))
                for secret in upstream_values(made)
            ),
        }
        yield _script(made, KEYS_SCRIPT, "envoy/keys.lua.j2", context, secret=True)
    if any(listener.auth.external for listener in made.fleet.listeners):
        answers = _answers("unauthorized", "forbidden", "bad_request", "internal")
        yield _script(made, EXTERNAL_SCRIPT, "envoy/external.lua.j2", {"answers": answers})
    if any(map(takes_off, made.fleet.listeners)):
        yield _script(made, SUBPATH_SCRIPT, "envoy/subpath.lua.j2", {})
    line = password_line(made)
    if line:
        yield Output(METRICS_FILE, text=line, secret=True)


BODY_ANSWERS = ("model_unreadable", "bad_body", "bad_form", "unsupported_encoding")


def _body_context(made: Assembly) -> dict[str, object]:
    paths = tuple(Syntax(lua_pattern(path)) for path in model_paths(made.fleet.listeners))
    answers = _answers(*BODY_ANSWERS)
    return {"answers": answers, "names": Syntax(lua_pattern(LISTED)), "segments": paths}


class Pair(NamedTuple):
    """An entry of a table in a script."""

    key: Syntax
    value: Syntax


class Reply(NamedTuple):
    """An answer of a script."""

    name: Syntax
    status: int
    body: Syntax


def _answers(*names: str) -> tuple[Reply, ...]:
    return tuple(Reply(Syntax(name), ANSWERS[name].status, quote_lua(ANSWERS[name].body)) for name in names)


def _script(
    made: Assembly, name: str, template: str, context: Mapping[str, object], *, secret: bool = False
) -> Output:
    if not made.split:
        return Output(f"{name}.lua", template, context, secret=secret, comment="--")
    # A file of secrets is taken as it lies on disk by who may not read them: it does not name the others.
    version = "" if secret else Syntax(files_mark(made.fleet.digest))
    more = {"version": version, "script": Syntax(template), "filter": SCRIPTS[name]}
    return Output(f"{name}.yaml", "envoy/script.yaml.j2", {**context, **more}, secret=secret)
