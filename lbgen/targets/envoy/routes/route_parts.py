"""Parts of routes: answers of Envoy's own, changes of headers and paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.answers import METHODS, live_body
from lbgen.targets.common.paths import compared, escape_regex
from lbgen.targets.envoy.language.words import Node, header
from lbgen.targets.envoy.routes.conditions import spelled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.model import Headers, Route
    from lbgen.targets.common.answers import Answer
    from lbgen.targets.envoy.assembly import Assembly


ODD, DIRECT = "x-lb-odd", "x-lb-direct"
MARKS = (ODD, DIRECT)
"""Notes of Envoy's own, which no server sees: which headers came twice, and who really connected."""


def marked(name: str) -> str:
    """Return how a header is named in a note, in which no other name contains it."""
    return f"<{name}>"


def client_headers(more: Iterable[Node] = (), removed: Iterable[str] = ()) -> Node:
    """Return what servers are told of the client's address, and `more`."""
    address = "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"
    return {
        "request_headers_to_add": [
            header("x-forwarded-for", address, formatted=True),
            header("x-real-ip", address, formatted=True),
            *more,
        ],
        "request_headers_to_remove": ["x-envoy-external-address", *MARKS, *removed],
    }


def answer(match: Node, said: Answer, why: str = "") -> Node:
    """Return a route that answers by itself, in OpenAI's form."""
    node: Node = {"#": why} if why else {}
    node |= {"match": match, "direct_response": {"status": said.status, "body": {"inline_string": said.body}}}
    headers = [header("content-type", "application/json")]
    if said.retry_after is not None:
        headers.append(header("retry-after", str(said.retry_after)))
    if said.status == 405:
        headers.append(header("allow", ", ".join(METHODS)))
    return node | {"response_headers_to_add": headers}


def live(made: Assembly, path: str) -> Node:
    """Return the probe that is answered while Envoy runs; it names the files that it runs with."""
    body = {"inline_string": live_body(made.fleet.digest)}
    return {
        "match": {"path": spelled(compared(path))},
        "direct_response": {"status": 200, "body": body},
        "response_headers_to_add": [header("content-type", "application/json")],
    }


def answer_changes(made: Assembly, headers: Headers, more: Iterable[Node] = ()) -> Node:
    """Return the changes of an answer's headers."""
    added = [header(name, made.value(value)) for name, value in headers.set.items() if value]
    removed = [*headers.remove, *(name for name, value in headers.set.items() if not value)]
    node: Node = {}
    if added := [*more, *added]:
        node["response_headers_to_add"] = added
    if removed:
        node["response_headers_to_remove"] = removed
    return node


def path_regex(route: Route) -> str:
    """Return what a path has to look like; the first group is what stays."""
    if not route.strip_prefix or not (route.match.paths or route.match.paths_exact):
        return "^/(.*)$"
    prefixes = sorted(
        (spelled(compared(path)).rstrip("/") for path in route.match.paths), key=len, reverse=True
    )
    exact = sorted((spelled(compared(path)) for path in route.match.paths_exact), key=len, reverse=True)
    named = "/[^/]+" if route.match.path_model else ""
    ways = [f"(?:{'|'.join(map(escape_regex, prefixes))}){named}(?:/(.*))?"] if prefixes else []
    ways += [f"(?:{'|'.join(map(escape_regex, exact))})"] if exact else []
    return f"^(?:{'|'.join(ways)}){'' if prefixes else '()'}$"
