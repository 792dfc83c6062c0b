"""The form in which paths of routes and of requests are compared, the same on every target."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from lbgen.api_paths import Carries, prefixes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


OBJECTS = prefixes(Carries.OBJECT)
LISTED = "/v1/models/"
"""What follows it is a model's name, slashes and all."""


def escape_regex(text: str) -> str:
    """Return an expression, of PCRE and of RE2, that matches just this text."""
    return "".join(c if c.isalnum() or c in "_-/" or ord(c) > 127 else f"\\x{ord(c):02x}" for c in text)


def objects_regex() -> str:
    """Return an expression, of PCRE and of RE2, for the beginning of a path to what one server keeps."""
    kept = (f"{escape_regex(path)}{'' if path.endswith('/') else '(?:/|$)'}" for path in OBJECTS)
    return f"^(?:{'|'.join(kept)})"


def lua_pattern(text: str) -> str:
    """Return a pattern of Lua that matches just this text."""
    return "".join(c if c.isalnum() or c in "/_" else f"%{c}" if c.isascii() else c for c in text)


def compared(path: str) -> str:
    """Return a route's path as it is compared: escapes decoded once, runs of slashes as one.

    NGINX compares so by itself (`merge_slashes`); servers that merge slashes, such as Ollama, would else
    serve `//api/delete` past a route for `/api/delete`.
    """
    return re.sub("//+", "/", unquote(path))


def admin_regex(paths: Iterable[str], before: Sequence[str] = (), added: str = "") -> str:
    """Return a regular expression, in any case, for decoded paths that lead to admin paths; empty: none does.

    `before`: prefixes that are taken off the client's path, any of them; `added`: what is put before the
    rest. Python's servers end a path at a newline, so the end is whatever no name has in it.
    """
    taken = "|".join(_segments(prefix) for prefix in before if _split(prefix))
    if taken:
        taken = f"(?:{taken})/+" if all(map(_split, before)) else f"(?:(?:{taken})/+)?"
    rests = [rest for path in paths if (rest := _rest(_split(path), _split(added))) is not None]
    if not rests:
        return ""
    if not all(rests):
        return f"^/+{taken.removesuffix('/+')}"
    names = "|".join(_segments("/".join(rest)) for rest in rests)
    return f"^/+{taken}(?:{names})(?:[^A-Za-z0-9_.-]|$)"


def _rest(path: list[str], added: list[str]) -> list[str] | None:
    """Return what a client has to write of a path to whose beginning a prefix is put.

    Empty: whatever it writes leads there; None: nothing does.
    """
    given = zip(path, added, strict=False)
    fits = all(name in ("*", own) or name.lower() == own.lower() for name, own in given)
    return path[len(added) :] if fits else None


def _split(path: str) -> list[str]:
    return [segment for segment in compared(path).split("/") if segment]


def _segments(path: str) -> str:
    return "/+".join("[^/]+" if name == "*" else _literal(name) for name in _split(path))


def _literal(text: str) -> str:
    return "".join(c if c.isalnum() or c in "_-" or ord(c) > 127 else f"\\x{ord(c):02x}" for c in text)


class Candidate(NamedTuple):
    """A route by one of its paths; smaller tuples go first."""

    prefix: int
    """0 for an exact path, 1 for a prefix."""
    length: int
    conditions: int
    order: int
    path: str


def candidates(listener: Listener) -> list[Candidate]:
    """Return every route by every path: exact ones, then longer ones, then those with more conditions."""
    found = []
    for order, route in enumerate(listener.routes):
        match = route.match
        more = -match.conditions
        found += [Candidate(0, 0, more, order, compared(path)) for path in match.paths_exact]
        prefixes = [compared(path).rstrip("/") for path in match.paths]
        if not prefixes and not match.paths_exact:
            prefixes = [""]
        found += [Candidate(1, -len(path), more, order, path) for path in prefixes]
    return sorted(found)
