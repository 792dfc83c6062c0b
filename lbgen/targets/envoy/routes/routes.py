"""Routes of one listener, and what each of them does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import ENGINES
from lbgen.targets.common.answers import ANSWERS
from lbgen.targets.common.paths import Candidate, admin_regex, candidates, objects_regex
from lbgen.targets.envoy.guards.access import access_of, is_closed_to_some
from lbgen.targets.envoy.language.words import Node, duration, header, regex, silence
from lbgen.targets.envoy.listeners.filters import (
    BODY,
    INSERT,
    SUBPATH,
    inserted,
    lua,
    takes_off,
)
from lbgen.targets.envoy.pools.clusters import hosts_told, pool_headers
from lbgen.targets.envoy.pools.retries import retry_policy, safe_methods, waits_again
from lbgen.targets.envoy.pools.strategies import body_keys, hash_policies, hashes, inserts, key_header
from lbgen.targets.envoy.routes.conditions import (
    NAMED,
    UNREAD,
    asked_of_body,
    body_matches,
    header_matches,
    path_match,
    spelled,
)
from lbgen.targets.envoy.routes.own import own_routes
from lbgen.targets.envoy.routes.route_parts import answer, answer_changes, path_regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener, Pool, Route
    from lbgen.targets.envoy.assembly import Assembly

_WEBSOCKET: Node = {"name": "upgrade", "string_match": {"exact": "websocket", "ignore_case": True}}


def routes(made: Assembly, listener: Listener, *, opens: bool) -> list[Node]:
    """Return all routes of a listener; the first that fits is taken.

    `opens`: WebSockets come as far as here, and are refused by routes that pass none on.
    """
    found = list(own_routes(made, listener))
    for candidate in candidates(listener):
        found += _Taken(made, listener, candidate, opens=opens).nodes()
    if any(not any(route.match) for route in listener.routes):
        return found
    if any(route.match.models for route in listener.routes):
        match = {"prefix": "/", "dynamic_metadata": [NAMED]}
        found.append(answer(match, ANSWERS["model_not_found"], "No pool serves the model."))
        match = regex(f"{objects_regex()}.*")
        found.append(answer(match, ANSWERS["made_elsewhere"], "Only the server that created it has it."))
    found.append(answer({"prefix": "/"}, ANSWERS["not_found"], "No route matches."))
    return found


class _Taken:
    """One route by one of its paths, in all the forms that it needs."""

    def __init__(self, made: Assembly, listener: Listener, candidate: Candidate, *, opens: bool) -> None:
        self.made = made
        self.opens = opens
        self.listener = listener
        self.route: Route = listener.routes[candidate.order]
        self.path = path_match(candidate)
        self.taken_off = candidate.path if candidate.prefix and self.route.strip_prefix else ""
        self.headers = header_matches(self.route.match)
        self.pools = tuple(made.fleet.pool(name) for name in self.route.pools)

    def nodes(self) -> Iterator[Node]:
        match = self.route.match
        if match.reads_body:
            yield self._reader()
        if self.opens and match.websocket is None and self.pools and not self._tunnels():
            yield answer(self._match([_WEBSOCKET]), ANSWERS["forbidden"], "No WebSockets here.")
        yield from self._closed()
        if match.websocket is not False and self._tunnels():
            yield self._node([_WEBSOCKET], tunnel=True)
        if match.websocket is True:
            return
        other = self._kind()
        pool = self.pools[0] if self.pools else None
        if pool and pool.retry.repeats and not pool.retry.replay_posts:
            yield self._node([*other, safe_methods()], again=True)
        yield self._node(other)

    def _kind(self) -> list[Node]:
        """Return the condition of the route on whether it is a WebSocket."""
        wanted = self.route.match.websocket
        return [] if wanted is None else [_WEBSOCKET if wanted else {**_WEBSOCKET, "invert_match": True}]

    def _closed(self) -> Iterator[Node]:
        """Yield what becomes of the paths by which a pool's engine is run: refusals, then those for some."""
        taken = (*self.route.match.paths, *self.route.match.paths_exact) if self.route.strip_prefix else ()
        for pool in sorted(self.pools, key=is_closed_to_some):
            paths = ENGINES[pool.engine].admin
            for found, harmless in ((paths.all, ""), (paths.changing, "GET|HEAD|OPTIONS")):
                pattern = "" if pool.admin.open else admin_regex(found, taken, self.route.add_prefix)
                if pattern:
                    where = {"name": ":path", "string_match": regex(f"(?is){pattern}.*")}
                    conditions = [*self._kind(), where]
                    if harmless:
                        method = {"name": ":method", "string_match": regex(harmless)}
                        conditions.append({**method, "invert_match": True})
                    why = f"Admin paths of {ENGINES[pool.engine].title}."
                    if is_closed_to_some(pool):
                        tunnel = self.route.match.websocket is True
                        yield {"#": why, **self._node(conditions, tunnel=tunnel, admin=True)}
                    else:
                        yield answer(self._match(conditions), ANSWERS["admin_refused"], why)

    def _tunnels(self) -> bool:
        return bool(self.pools) and (self.listener.websocket or self.route.match.websocket is True)

    def _match(self, more: list[Node]) -> Node:
        headers = [*self.headers, *more]
        inside = body_matches(self.route.match)
        return {
            **self.path,
            **({"headers": headers} if headers else {}),
            **({"dynamic_metadata": inside} if inside else {}),
        }

    def _reader(self) -> Node:
        """Return the route that a request takes until its body was looked at."""
        wanted: list[str] = []
        for route in self.listener.routes:
            wanted += asked_of_body(route, self.made.fleet.logs)
            for name in route.pools:
                wanted += body_keys(self.made.fleet.pool(name))
        inside = self._match([]) | {"dynamic_metadata": [UNREAD]}
        node = answer(
            inside,
            ANSWERS["internal"],
            ("Until the script has inspected the body and selects the route again."),
        )
        names = list(dict.fromkeys(wanted))
        script = {BODY: self._script(names, decides=True)}
        # What the route that is taken in the end may turn on has to be there from the beginning.
        later = {SUBPATH: lua()} if takes_off(self.listener) else {}
        return node | {"typed_per_filter_config": {**script, **later}}

    def _script(self, wanted: list[str], *, decides: bool) -> Node:
        pools = self.made.fleet.pools_of(self.listener)
        kinds = {"ollama": {pool.engine for pool in pools}, "grpc": {pool.protocol for pool in pools}}
        more = {name: True for name, found in kinds.items() if name in found}
        return lua(wanted=",".join(wanted), most=self.listener.inspect_body, decides=decides, **more)

    def _node(
        self, more: list[Node], *, tunnel: bool = False, again: bool = False, admin: bool = False
    ) -> Node:
        route = self.route
        node: Node = {"name": route.name, "match": self._match(more)}
        if route.respond:
            return node | self._respond()
        if not any(pool.has_servers for pool in self.pools):
            del node["name"]
            return answer(node["match"], ANSWERS["unavailable"], f"{self.pools[0].name} has no servers.")
        node["route"] = self._action(tunnel=tunnel, again=again, admin=admin)
        node |= self._headers()
        return node | self._per_filter(admin=admin)

    def _respond(self) -> Node:
        said = self.route.respond
        if said is None:
            raise ValueError("a route without an answer")
        body = {"body": {"inline_string": said.body}} if said.body else {}
        node: Node = {"direct_response": {"status": said.status, **body}}
        kind = [header("content-type", said.content_type)] if said.body else []
        return node | answer_changes(self.made, self.route.response_headers, kind)

    def _action(self, *, tunnel: bool, again: bool, admin: bool) -> Node:
        route, pool = self.route, self.pools[0]
        waits = route.timeouts
        action = self._target(admin=admin)
        action["#"] = "No limit on the whole response: Envoy's default is 15 s."
        action["timeout"] = "0s"
        quiet = max(silence(one.timeouts._replace(**_written(waits))) for one in self.pools)
        if tunnel:
            quiet = waits.tunnel or pool.timeouts.tunnel or 3_600_000
            action["upgrade_configs"] = [{"upgrade_type": "websocket", "enabled": True}]
        first = waits.first_byte or pool.timeouts.first_byte
        if first and not tunnel and waits_again(pool, again=again):
            quiet = max(quiet, first * (1 + pool.retry.attempts) + 1_000)  # silence goes on while it is tried
        action["idle_timeout"] = duration(quiet or 600_000)
        action |= retry_policy(pool, None if tunnel else first, again=again)
        action |= self._rewrites()
        keyed = [one for one in self.pools if hashes(one, self.made.settings)]
        if keyed:
            action["hash_policy"] = list(hash_policies(keyed[0]))
        elif len(route.split) > 1 and route.split_by != "request":
            action["hash_policy"] = [self._share_key()]
        return action

    def _share_key(self) -> Node:
        by = self.route.split_by
        if by != "client":
            return {"header": {"header_name": by.removeprefix("header:")}}
        if self.listener.auth.clients:
            return {"header": {"header_name": key_header("client")}}
        return {"connection_properties": {"source_ip": True}}

    def _target(self, *, admin: bool) -> Node:
        route = self.route
        if len(route.split) < 2:
            return {"cluster": self.made.cluster_for(self.pools[0].name, route.when_down)}
        shares = [self._share(name, share, admin=admin) for name, share in route.split.items() if share]
        # Requests without the key are shared out by chance.
        keyed = {"use_hash_policy": True} if route.split_by != "request" else {}
        return {"weighted_clusters": {"clusters": shares, **keyed}}

    def _share(self, name: str, share: int, *, admin: bool) -> Node:
        node: Node = {"name": self.made.cluster_for(name, self.route.when_down), "weight": {"value": share}}
        headers, removed = _pool_changes(self.made, self.made.fleet.pool(name))
        if headers:
            node["request_headers_to_add"] = headers
        if removed:
            node["request_headers_to_remove"] = removed
        pools = [pool for pool in self.pools if pool.name in {name, self.route.when_down}]
        if access := access_of(self.made.fleet, pools, admin=admin):
            node["typed_per_filter_config"] = access
        return node | answer_changes(self.made, self.made.fleet.pool(name).response_headers)

    def _rewrites(self) -> Node:
        route = self.route
        node: Node = {}
        if route.strip_prefix or route.add_prefix:
            node["regex_rewrite"] = {
                "pattern": {"regex": path_regex(route)},
                "substitution": spelled(route.add_prefix.rstrip("/")) + "/\\1",
            }
        header_from = self.pools[0].host_header
        if header_from == "backend":
            node["auto_host_rewrite"] = True
        elif header_from != "client":
            node["host_rewrite_literal"] = header_from
        return node

    def _headers(self) -> Node:
        added: list[Node] = []
        removed = list(self.route.headers.remove)
        if len(self.route.split) < 2:
            own, more = _pool_changes(self.made, self.pools[0])
            added += own
            removed += more
        for name, value in self.route.headers.set.items():
            if value:
                added.append(header(name, self.made.value(value)))
            else:
                removed.append(name)
        pools = self.pools[:1] if len(self.route.split) < 2 else ()
        node = answer_changes(self.made, self.route.response_headers)
        for pool in pools:
            node = _both(answer_changes(self.made, pool.response_headers), node)
        if added:
            node["request_headers_to_add"] = added
        if removed:
            node["request_headers_to_remove"] = list(dict.fromkeys(removed))
        return node

    def _per_filter(self, *, admin: bool) -> Node:
        # What is shared out is asked for by each share.
        found = {} if len(self.route.split) > 1 else access_of(self.made.fleet, self.pools, admin=admin)
        keyed = [pool for pool in self.pools if hashes(pool, self.made.settings) and body_keys(pool)]
        if keyed and not self.route.match.reads_body:
            found[BODY] = self._script(list(body_keys(keyed[0])), decides=False)
        cookies = [inserts(pool) for pool in self.pools if inserts(pool)]
        if cookies:
            found[INSERT] = inserted(cookies[0])
        if self.taken_off:
            found[SUBPATH] = lua(**self._taken())
        return {"typed_per_filter_config": found} if found else {}

    def _taken(self) -> dict[str, str | bool]:
        named = {"named": True} if self.route.match.path_model else {}
        words = {"taken": spelled(self.taken_off), "add": spelled(self.route.add_prefix)}
        return {**words, "hosts": hosts_told(self.pools), **named}


def _both(first: Node, second: Node) -> Node:
    """Return the changes of two levels, of which the second wins: Envoy adds after all that it removes."""
    gone = {name.lower() for name in second.get("response_headers_to_remove", ())}
    kept = [
        one for one in first.get("response_headers_to_add", ()) if one["header"]["key"].lower() not in gone
    ]
    first = {**first, "response_headers_to_add": kept}
    both = {key: [*first.get(key, ()), *second.get(key, ())] for key in {**first, **second}}
    return {key: changes for key, changes in both.items() if changes}


def _written(timeouts: object) -> dict[str, int]:
    return {name: value for name, value in timeouts._asdict().items() if value}  # type: ignore[attr-defined]


def _pool_changes(made: Assembly, pool: Pool) -> tuple[list[Node], list[str]]:
    empty = [name for name, value in pool.headers.set.items() if not value]
    return list(pool_headers(made, pool)), [*pool.headers.remove, *empty]
