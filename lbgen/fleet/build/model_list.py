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
    from collections.abc import Callable, Iterator, Sequence

    from lbgen.model import Client, Pool
    from lbgen.problems import Path

MODELS_PATH = "/v1/models"
_OLLAMA_VERSION = "0.12.0"
"""Of Ollama's API. Clients ask for it to learn what they may use; tool calls and thinking came before."""


def with_answers(
    routes: tuple[Route, ...], pools: Sequence[Pool], clients: Sequence[Client], path: Path
) -> tuple[Route, ...]:
    """Return the routes, and more that list the models of all pools behind them, as OpenAI and Ollama do.

    `clients`: those that the listener knows; one that is kept to some pools gets the models of these alone.
    A route that is written for one of these paths stays the only one, and patterns are no names. An answer
    that HAProxy could not hold is left to the routes as well.
    """
    if not any(route.match.models for route in routes):
        return routes
    for name, where, respond in _answers(routes, pools, clients):
        if len(respond.body) <= MAX_ANSWER and not _takes(routes, where):
            listed = Route(_free_name(routes, name), Match(paths_exact=(where,)), respond=respond, path=path)
            routes = (*routes, listed)
    return routes


def _answers(
    routes: Sequence[Route], pools: Sequence[Pool], clients: Sequence[Client]
) -> Iterator[tuple[str, str, Respond]]:
    if _names(routes, pools):
        yield "model-list", MODELS_PATH, _listed(_openai_list, routes, pools, clients)
    if any(_reached_ollama(routes, pools)):
        yield "ollama-running", "/", Respond(200, "Ollama is running", "text/plain")
        version = _text({"version": _OLLAMA_VERSION})
        yield "ollama-version", "/api/version", Respond(200, version, "application/json")
        for name in ("tags", "ps"):
            yield f"ollama-{name}", f"/api/{name}", _listed(_ollama_list, routes, pools, clients)


def _listed(
    make: Callable[[Sequence[Route], Sequence[Pool]], str],
    routes: Sequence[Route],
    pools: Sequence[Pool],
    clients: Sequence[Client],
) -> Respond:
    """Return a list of models, and the lists of clients that may not use all of them."""
    whole = make(routes, pools)
    texts: dict[tuple[str, ...], str] = {(): whole}
    instead: dict[str, tuple[str, ...]] = {}
    for client in clients:
        own = client.pools
        if own not in texts:
            leading = [route for route in routes if set(route.pools) & set(own)]
            texts[own] = make(leading, [pool for pool in pools if pool.name in own])
        if texts[own] != whole:
            instead[texts[own]] = (*instead.get(texts[own], ()), client.name)
    return Respond(200, whole, "application/json", instead)


def _openai_list(routes: Sequence[Route], pools: Sequence[Pool]) -> str:
    # A time of creation would change the files each time.
    common = {"object": "model", "created": 0, "owned_by": "lbgen"}
    return _text({"object": "list", "data": [{"id": name, **common} for name in _names(routes, pools)]})


def _ollama_list(routes: Sequence[Route], pools: Sequence[Pool]) -> str:
    ollama = _reached_ollama(routes, pools)
    own = [name for pool in ollama for name in pool.models if _is_served(name, pool, routes)]
    return _text({"models": [_ollama_model(name) for name in dict.fromkeys(own) if "*" not in name]})


def _reached_ollama(routes: Sequence[Route], pools: Sequence[Pool]) -> list[Pool]:
    reached = {name for route in routes for name in route.pools}
    return [pool for pool in pools if pool.engine == "ollama" and pool.name in reached]


def _ollama_model(name: str) -> dict[str, object]:
    """Return a model as Ollama lists it; what only its server knows is left empty."""
    details = {"format": "", "family": "", "families": [], "parameter_size": "", "quantization_level": ""}
    return {"name": name, "model": name, "size": 0, "digest": "", "details": details}


def _text(data: object) -> str:
    return json.dumps(data, separators=(",", ":"))


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
