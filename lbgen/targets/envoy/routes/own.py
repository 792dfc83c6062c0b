"""Routes that every listener has before those of the fleet: probes, challenges, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.answers import ANSWERS
from lbgen.targets.envoy.guards.rates import limits_of
from lbgen.targets.envoy.listeners.filters import ADDRESSES, AUTH, EXTERNAL, OFF
from lbgen.targets.envoy.listeners.status import asks_each, ready_route
from lbgen.targets.envoy.routes.conditions import UNCLEAR, decides_once, odd_queries
from lbgen.targets.envoy.routes.route_parts import ODD, answer, live, marked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener
    from lbgen.targets.envoy.assembly import Assembly
    from lbgen.targets.envoy.language.words import Node

ACME = "/.well-known/acme-challenge/"
_LARGEST = (1 << 63) - 1


def own_routes(made: Assembly, listener: Listener) -> Iterator[Node]:
    """Yield a listener's own routes."""
    # Nobody needs a key for these, they come from anywhere, and no limit counts them.
    keys = (AUTH,) if listener.auth.clients else (EXTERNAL,) if listener.auth.external else ()
    places = (ADDRESSES,) if listener.allow or listener.deny else ()
    unbound = dict.fromkeys((*limits_of(made, listener), *keys, *places), OFF)
    free = {"typed_per_filter_config": unbound} if unbound else {}
    if listener.status.live:
        yield live(made, listener.status.live) | free
    if asks_each(made, listener):
        yield ready_route(listener.status.ready or "") | free
    hosts = {"name": ":authority", "string_match": {"contains": ","}}
    yield answer({"prefix": "/", "headers": [hosts]}, ANSWERS["bad_request"], "Two hosts.")
    traced = {"prefix": "/", "headers": [{"name": ":method", "string_match": {"exact": "TRACE"}}]}
    yield answer(traced, ANSWERS["method_not_allowed"], "TRACE would show keys to scripts of a page.")
    for name in decides_once(listener):
        odd = {"name": ODD, "string_match": {"contains": marked(name)}}
        yield answer({"prefix": "/", "headers": [odd]}, ANSWERS["bad_request"], "One that decides, twice.")
    if listener.acme and listener.acme.pool:
        pool = made.fleet.pool(listener.acme.pool)
        closed = [{"upgrade_type": "websocket", "enabled": False}]
        action = {"cluster": pool.name, "timeout": "30s", "upgrade_configs": closed}
        yield {
            "match": {"prefix": ACME},
            "route": action,
            **free,
        }
    length = {"name": "content-length", "range_match": {"start": listener.max_body + 1, "end": _LARGEST}}
    yield answer({"prefix": "/", "headers": [length]}, ANSWERS["too_large"], "max_body, before it is read.")
    yield answer(
        {"prefix": "/", "headers": [UNCLEAR]},
        ANSWERS["bad_request"],
        ("An incomplete escape sequence in the path."),
    )
    for odd in odd_queries(listener):
        why = "Refuse ambiguous query parameters that select a route."
        yield answer({"prefix": "/", "headers": [odd]}, ANSWERS["bad_request"], why)
