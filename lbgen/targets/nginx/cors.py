"""CORS, where the balancer owns it: the servers' own headers are hidden then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.nginx.auth import preflight
from lbgen.targets.nginx.quoting import escape_regex, quote, regex_word
from lbgen.targets.nginx.views import Check, Pair
from lbgen.targets.nginx.words import variable
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener
    from lbgen.targets.nginx.assembly import Assembly

_METHODS = "GET, POST, PUT, PATCH, DELETE, OPTIONS"


def response_headers(made: Assembly, listener: Listener) -> Iterator[Pair]:
    """Yield the headers; those with an empty value are not sent."""
    if not listener.cors_origins:
        return
    origin = _allowed(made, listener)
    asked = preflight(made)
    methods = made.map(asked, "$lb_cors_methods", [("default", '""'), ("1", quote(_METHODS))])
    names = "$http_access_control_request_headers"
    headers = made.map(asked, "$lb_cors_headers", [("default", '""'), ("1", names)])
    age = made.map(asked, "$lb_cors_age", [("default", '""'), ("1", "7200")])
    yield Pair(Syntax("Access-Control-Allow-Origin"), origin)
    yield Pair(Syntax("Access-Control-Allow-Methods"), methods)
    yield Pair(Syntax("Access-Control-Allow-Headers"), headers)
    yield Pair(Syntax("Access-Control-Max-Age"), age)
    yield Pair(Syntax("Access-Control-Expose-Headers"), quote("X-Request-Id, Retry-After"))
    yield Pair(Syntax("Vary"), Syntax("Origin"))


def checks(made: Assembly, listener: Listener) -> Iterator[Check]:
    """Yield the check that answers preflights here."""
    if listener.cors_origins:
        yield Check(preflight(made), 204)


def _allowed(made: Assembly, listener: Listener) -> Syntax:
    name = f"$lb_cors_{variable(made.listeners[listener.name])}"
    if "*" in listener.cors_origins:
        return made.map("$http_origin", name, [("default", '"*"')])
    entries = [(regex_word(f"~^{escape_regex(origin)}$"), "$http_origin") for origin in listener.cors_origins]
    return made.map("$http_origin", name, [("default", '""'), *entries])
