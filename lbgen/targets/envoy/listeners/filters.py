"""The filters that requests of a listener go through, in their order.

All but the last are off unless a virtual host or a route turns them on: several listeners may share an
address, and each has its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.strategies.asked import reads_body
from lbgen.targets.envoy.assembly import BODY_SCRIPT, EXTERNAL_SCRIPT, KEYS_SCRIPT, SUBPATH_SCRIPT
from lbgen.targets.envoy.guards.access import access_filter, guards_pools
from lbgen.targets.envoy.guards.rates import limit_filters
from lbgen.targets.envoy.language.words import Node, data, typed
from lbgen.targets.envoy.pools.strategies import inserts

if TYPE_CHECKING:
    from lbgen.model import Fleet, Listener
    from lbgen.targets.envoy.assembly import Assembly

AUTH, BODY, INSERT, CORS = "lb.auth", "lb.body", "lb.session", "envoy.filters.http.cors"
EXTERNAL, SUBPATH = "lb.external", "lb.subpath"
SCRIPTS = {KEYS_SCRIPT: AUTH, BODY_SCRIPT: BODY, EXTERNAL_SCRIPT: EXTERNAL, SUBPATH_SCRIPT: SUBPATH}
"""The filter of each script."""
_HTTP = "envoy.extensions.filters.http"
OFF: Node = typed("envoy.config.route.v3.FilterConfig", disabled=True)
"""Turns a filter off for a route."""


def filters(made: Assembly, listeners: tuple[Listener, ...]) -> list[Node]:
    """Return the filters of a connection manager that serves these listeners."""
    found: list[Node] = []
    if any(listener.cors.origins for listener in listeners):
        found.append({"name": CORS, "typed_config": typed(f"{_HTTP}.cors.v3.Cors")})
    if any(listener.allow or listener.deny for listener in listeners):
        found.append({"name": ADDRESSES, "disabled": True, "typed_config": typed(f"{_HTTP}.rbac.v3.RBAC")})
    early, late = limit_filters(made, listeners)
    found += early
    if any(listener.auth.except_from for listener in listeners):
        found.append({"name": EXCEPT, "disabled": True, "typed_config": typed(f"{_HTTP}.rbac.v3.RBAC")})
    if any(listener.auth.clients for listener in listeners):
        found.append(_script(made, KEYS_SCRIPT))
    if any(listener.auth.external for listener in listeners):
        found.append(_script(made, EXTERNAL_SCRIPT))
    found += late
    if any(reads_bodies(made.fleet, listener) for listener in listeners):
        found.append(_script(made, BODY_SCRIPT))
    pools = [pool for listener in listeners for pool in made.fleet.pools_of(listener)]
    if guards_pools(made.fleet, pools):
        found.append(access_filter())
    if any(map(inserts, pools)):
        kind = typed(f"{_HTTP}.stateful_session.v3.StatefulSession")
        found.append({"name": INSERT, "typed_config": kind})
    if any(map(takes_off, listeners)):
        found.append(_script(made, SUBPATH_SCRIPT))
    router = typed(
        f"{_HTTP}.router.v3.Router",
        suppress_envoy_headers=True,
    )
    found.append({"name": "envoy.filters.http.router", "typed_config": router})
    return found


EXCEPT, ADDRESSES = "lb.except", "lb.addresses"


def reads_bodies(fleet: Fleet, listener: Listener) -> bool:
    """Tell whether anything of a listener looks at bodies."""
    matches = any(route.match.reads_body for route in listener.routes)
    return matches or any(map(reads_body, fleet.pools_of(listener)))


def tunnels(listener: Listener) -> bool:
    """Tell whether a route of a listener's passes WebSockets on."""
    return listener.websocket or any(route.match.websocket for route in listener.routes)


def takes_off(listener: Listener) -> bool:
    """Tell whether a route of a listener's takes a prefix off."""
    return any(route.strip_prefix and route.match.paths for route in listener.routes)


def _script(made: Assembly, script: str) -> Node:
    """Return a filter that is a script, which stands in a file of its own."""
    kind = f"{_HTTP}.lua.v3.Lua"
    node: Node = {"name": SCRIPTS[script], "disabled": True}
    if made.split:
        source = made.source(f"{script}.yaml")
        found = {"config_source": source, "type_urls": [f"type.googleapis.com/{kind}"]}
        return node | {"config_discovery": found}
    return node | {"typed_config": typed(kind, default_source_code=data(made.path(f"{script}.lua")))}


def lua(**context: str | int | bool) -> Node:
    """Return what turns a script on for a route or a host, with what it is told."""
    return typed(f"{_HTTP}.lua.v3.LuaPerRoute", filter_context=context)


def inserted(cookie: str) -> Node:
    """Return what names a session's server in a cookie."""
    state = typed(
        "envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState",
        cookie={"name": cookie, "path": "/"},
    )
    session = {"session_state": {"name": "envoy.http.stateful_session.cookie", "typed_config": state}}
    return typed(f"{_HTTP}.stateful_session.v3.StatefulSessionPerRoute", stateful_session=session)
