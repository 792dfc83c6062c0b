"""Rules about the models that pools list."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from lbgen.fleet.rules.rule import Finding, Rule, routed_pools
from lbgen.problems import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Listener, Pool


def inert_models(fleet: Fleet) -> Iterator[Finding]:
    """Find models of a pool that no route heeds, because routes are written."""
    for pool in (one for one in fleet.pools if one.models):
        leading = [listener for listener in fleet.listeners if pool.name in routed_pools(listener)]
        if not leading or not all(_has_written_routes(listener) for listener in leading):
            continue
        idle = [at for at, model in enumerate(pool.models) if not _is_heeded(model, pool, leading)]
        if idle and len(idle) == len(pool.models):
            message = f"routes are written, so that they decide: 'models' leads no request to '{pool.name}'"
            yield Finding((*pool.path, "models"), message)
            continue
        for at in idle:
            message = f"no route leads requests for '{pool.models[at]}' to '{pool.name}'"
            yield Finding((*pool.path, "models", at), message)


def _has_written_routes(listener: Listener) -> bool:
    return any(isinstance(route.path[-1], int) for route in listener.routes)


def _is_heeded(model: str, pool: Pool, listeners: list[Listener]) -> bool:
    """Tell whether a listener tells models apart, and leads this one to the pool or lists it."""
    for listener in listeners:
        if not any(route.match.models for route in listener.routes):
            continue
        for models in (route.match.models for route in listener.routes if pool.name in route.pools):
            if not models or any(fnmatchcase(model, pattern) for pattern in models):
                return True
    return False


RULES = (
    Rule(
        "inert-models",
        Severity.WARNING,
        "a pool lists `models`, and the written `routes` ignore them",
        "`models` creates routes only if a listener has none. Requests for a model that a pool lists "
        "and no route names go wherever the routes lead: to the pool that takes the rest, or to 404.",
        "write a route such as {model: llama-70b, pool: llama}, or remove 'routes' or 'models'",
        inert_models,
    ),
)
