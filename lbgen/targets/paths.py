"""The form in which paths of routes and of requests are compared, the same on every target."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lbgen.api_paths import Carries, prefixes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.model import Listener


def model_paths(listeners: Iterable[Listener]) -> tuple[str, ...]:
    """Return the beginnings of paths whose next segment is the model, as they are compared."""
    own = (
        compared(path).rstrip("/") + "/"
        for listener in listeners
        for route in listener.routes
        if route.match.path_model
        for path in route.match.paths
    )
    known = (prefix for prefix in prefixes(Carries.PATH) if prefix != LISTED)
    return tuple(dict.fromkeys([*known, *own]))


LISTED = "/v1/models/"
"""What follows it is a model's name, slashes and all."""


def compared(path: str) -> str:
    """Return a route's path as it is compared: escapes decoded once, runs of slashes as one.

    NGINX compares so by itself (`merge_slashes`); servers that merge slashes, such as Ollama, would else
    serve `//api/delete` past a route for `/api/delete`.
    """
    return re.sub("//+", "/", unquote(path))
