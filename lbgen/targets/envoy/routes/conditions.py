"""The conditions of a route, on what Envoy sees of a request and on what its script saw of the body."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from lbgen.targets.common.paths import escape_regex
from lbgen.targets.common.query import anything, in_path, needless, parameter, twice
from lbgen.targets.envoy.language.words import Node, regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener, Logs, Match, Route
    from lbgen.targets.common.paths import Candidate


def path_match(candidate: Candidate) -> Node:
    """Return the condition on the path, as Envoy has it after it was made canonical."""
    if not candidate.prefix:
        return {"path": spelled(candidate.path)}
    return {"path_separated_prefix": spelled(candidate.path)} if candidate.path else {"prefix": "/"}


def spelled(path: str) -> str:
    """Return a path as it stands in a canonical request: what needs an escape has one."""
    return quote(path, safe="/:@!$&'()*+,;=-._~")


def header_matches(match: Match) -> list[Node]:
    """Return the conditions on host, method, headers and parameters of the query."""
    found: list[Node] = []
    if match.hosts:
        found.append({"name": ":authority", "string_match": regex(f"(?i)(?:{'|'.join(_hosts(match))})")})
    if match.methods:
        found.append({"name": ":method", "string_match": regex("|".join(match.methods))})
    for name, value in match.headers.items():
        found.append({"name": name, "string_match": {"exact": value}})
    for name, value in match.query.items():
        found.append(_query(parameter(name, value)))
    return found


UNCLEAR: Node = {
    "name": ":path",
    "string_match": regex("(?s)[^?]*%(?:[^0-9a-fA-F].*|[0-9a-fA-F](?:[^0-9a-fA-F].*)?)?"),
}
"""A path with half an escape, which each server reads otherwise."""


def _query(expression: str) -> Node:
    return {"name": ":path", "string_match": regex(in_path(expression))}


def odd_queries(listener: Listener) -> Iterator[Node]:
    """Yield the conditions on parameters that decide and are there twice, or spelled as no client does."""
    for name in dict.fromkeys(name for route in listener.routes for name in route.match.query):
        yield from map(_query, (twice(name), needless(name)))


_LISTS = re.compile(r"accept(-.+)?|cache-control|cookie|user-agent|.+-beta")
"""Headers of which honest clients send several values in one line."""


def decides_once(listener: Listener) -> tuple[str, ...]:
    """Return the headers that a listener's routes compare and that are one value by nature.

    One with a comma in a value cannot be told from two.
    """
    found = [pair for route in listener.routes for pair in route.match.headers.items()]
    commas = {name.lower() for name, value in found if "," in value}
    names = dict.fromkeys(name.lower() for name, _ in found)
    return tuple(name for name in names if name not in commas and not _LISTS.fullmatch(name))


def _hosts(match: Match) -> Iterator[str]:
    for host in match.hosts:
        wild = host.startswith("*.")
        yield (".*" if wild else "") + escape_regex(host[1:] if wild else host) + r"\.?(?::[0-9]+)?"


def body_matches(match: Match) -> list[Node]:
    """Return the conditions on what the script found in the body."""
    found = []
    if match.models:
        names = [_model(name) for name in match.models]
        # A list of one is refused.
        found.append(_metadata("model", {"or_match": {"value_matchers": names}} if names[1:] else names[0]))
    for name, value in match.form.items():
        found.append(_metadata(f"form:{name}", _model(value)))
    if match.prompt_over is not None:
        found.append(_number("size", match.prompt_over + 1, None))
    if match.prompt_under is not None:
        found.append(_number("size", 0, match.prompt_under))
    if match.max_tokens_over is not None:
        found.append(_number("tokens", match.max_tokens_over + 1, None))
    return found


def _model(name: str) -> Node:
    if anything(name):
        return {"string_match": regex(".+")}
    if "*" in name or "?" in name:
        special = {"*": ".*", "?": "."}
        return {"string_match": regex("".join(special.get(c) or escape_regex(c) for c in name))}
    return {"string_match": {"exact": name}}


def _number(key: str, least: int, end: int | None) -> Node:
    return _metadata(key, {"double_match": {"range": {"start": least, "end": end or 1 << 50}}})


def _metadata(key: str, value: Node) -> Node:
    return {"filter": "lbgen", "path": [{"key": key}], "value": value}


UNREAD: Node = {**_metadata("read", {"string_match": {"exact": "yes"}}), "invert": True}
"""The body was not looked at yet."""
NAMED: Node = _metadata("model", {"string_match": regex(".+")})
"""The body names a model."""


def asked_of_body(route: Route, logs: Logs) -> tuple[str, ...]:
    """Return what the script has to find for a route's conditions and the access log, in its words."""
    model = bool(route.match.models) or logs.asks("model")
    tokens = route.match.max_tokens_over is not None or logs.asks("max_tokens")
    forms = tuple(f"form:{name}" for name in route.match.form)
    return ("model",) * model + ("tokens",) * tokens + forms
