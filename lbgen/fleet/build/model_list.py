"""What is answered from the fleet where requests are routed by their model: which models there are.

Such a request names no model, so that no route by model takes it, and one pool would name only its own.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from lbgen.fleet.build.routes import MAX_ANSWER
from lbgen.model import Match, Respond, Route

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.model import Pool
    from lbgen.problems import Path

MODELS_PATH = "/v1/models"
_OLLAMA_VERSION = "0.12.0"
"""Of Ollama's API. Clients ask for it to learn what they may use; tool calls and thinking came before."""


def with_answers(routes: tuple[Route, ...], pools: Sequence[Pool], path: Path) -> tuple[Route, ...]:
    """Return the routes, and more that list the models of all pools behind them, as OpenAI and Ollama do.

    A route that is written for one of these paths stays the only one, and patterns are no names. An answer
    that HAProxy could not hold is left to the routes as well.
    """
    if not any(route.match.models for route in routes):
        return routes
    for name, where, respond in _answers(routes, pools):
        if respond.body and len(respond.body) <= MAX_ANSWER and not _takes(routes, where):
            listed = Route(_free_name(routes, name), Match(paths_exact=(where,)), respond=respond, path=path)
            routes = (*routes, listed)
    return routes


def _answers(routes: tuple[Route, ...], pools: Sequence[Pool]) -> Iterator[tuple[str, str, Respond]]:
    names = _names(routes, pools)
    # OpenAI's form; a time of creation would change the files each time.
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "lbgen"} for name in names]
    yield "model-list", MODELS_PATH, _json({"object": "list", "data": data} if data else None)
    reached = {name for route in routes for name in route.pools}
    ollama = [pool for pool in pools if pool.engine == "ollama" and pool.name in reached]
    if ollama:
        own = [name for pool in ollama for name in pool.models if _is_served(name, pool, routes)]
        models = [_ollama_model(name) for name in dict.fromkeys(own) if "*" not in name]
        yield "ollama-running", "/", Respond(200, "Ollama is running", "text/plain")
        yield "ollama-version", "/api/version", _json({"version": _OLLAMA_VERSION})
        for name in ("tags", "ps"):
            yield f"ollama-{name}", f"/api/{name}", _json({"models": models})


def _ollama_model(name: str) -> dict[str, object]:
    """Return a model as Ollama lists it; what only its server knows is left empty."""
    details = {"format": "", "family": "", "families": [], "parameter_size": "", "quantization_level": ""}
    return {"name": name, "model": name, "size": 0, "digest": "", "details": details}


def _json(data: object) -> Respond:
    body = json.dumps(data, separators=(",", ":")) if data else ""
    return Respond(200, body, "application/json")


def _takes(routes: Sequence[Route], path: str) -> bool:
    """Tell whether a route is written for this path; one for everything below ``/v1`` is not."""
    matches = [route.match for route in routes if not route.match.models]
    if path == "/" and any(not match.paths and not match.paths_exact for match in matches):
        return True  # the pages of an application, perhaps
    return any(path in match.paths_exact or path in match.paths for match in matches)


def _names(routes: Sequence[Route], pools: Sequence[Pool]) -> list[str]:
    named = [name for pool in pools for name in pool.models if _is_served(name, pool, routes)]
    named += [name for route in routes for name in route.match.models]
    return list(dict.fromkeys(name for name in named if "*" not in name))


def _is_served(name: str, pool: Pool, routes: Sequence[Route]) -> bool:
    """Tell whether a route takes a model of this name to this pool."""
    leading = (route.match.models for route in routes if pool.name in route.pools)
    return any(not models or any(fnmatchcase(name, model) for model in models) for models in leading)


def _free_name(routes: Sequence[Route], wanted: str) -> str:
    taken = {route.name for route in routes}
    names = (wanted, *(f"{wanted}-{number}" for number in range(len(taken))))
    return next(name for name in names if name not in taken)
