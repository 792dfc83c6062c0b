"""The answer to ``GET /v1/models`` where requests are routed by their model."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from lbgen.fleet.build.routes import MAX_ANSWER
from lbgen.model import Match, Respond, Route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.model import Pool
    from lbgen.problems import Path

MODELS_PATH = "/v1/models"


def with_model_list(routes: tuple[Route, ...], pools: Sequence[Pool], path: Path) -> tuple[Route, ...]:
    """Return the routes, and one more that lists the models of all pools behind them.

    Such a request has no body and so no model: no route by model takes it, and one pool would
    name only its own. A route that is written for this path stays the only one, and patterns
    are no names. An answer that HAProxy could not hold is left to the routes as well.
    """
    if not any(route.match.models for route in routes) or any(_takes_list(route.match) for route in routes):
        return routes
    names = _names(routes, pools)
    # OpenAI's form; a time of creation would change the files each time.
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "lbgen"} for name in names]
    body = json.dumps({"object": "list", "data": data}, separators=(",", ":"))
    if not names or len(body) > MAX_ANSWER:
        return routes
    listed = Route(
        name=_free_name(routes),
        match=Match(paths_exact=(MODELS_PATH,)),
        respond=Respond(200, body, "application/json"),
        path=path,
    )
    return (*routes, listed)


def _takes_list(match: Match) -> bool:
    """Tell whether a route is written for this path; one for everything below ``/v1`` is not."""
    if match.models:
        return False
    return MODELS_PATH in match.paths_exact or MODELS_PATH in match.paths


def _names(routes: Sequence[Route], pools: Sequence[Pool]) -> list[str]:
    named = [name for pool in pools for name in pool.models if _is_served(name, pool, routes)]
    named += [name for route in routes for name in route.match.models]
    return list(dict.fromkeys(name for name in named if "*" not in name))


def _is_served(name: str, pool: Pool, routes: Sequence[Route]) -> bool:
    """Tell whether a route takes a model of this name to this pool."""
    leading = (route.match.models for route in routes if pool.name in route.pools)
    return any(not models or any(fnmatchcase(name, model) for model in models) for models in leading)


def _free_name(routes: Sequence[Route]) -> str:
    taken = {route.name for route in routes}
    names = ("model-list", *(f"model-list-{number}" for number in range(len(taken))))
    return next(name for name in names if name not in taken)
