"""CORS, where the balancer owns it: the servers' own headers are hidden then, but for what they expose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.claims import EXPOSED
from lbgen.targets.nginx.guards.auth import preflight
from lbgen.targets.nginx.language.quoting import escape_regex, quote, regex_word
from lbgen.targets.nginx.language.words import variable
from lbgen.targets.nginx.views import Check, Pair
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener
    from lbgen.targets.nginx.assembly import Assembly


def response_headers(made: Assembly, listener: Listener) -> Iterator[Pair]:
    """Yield the headers; those with an empty value are not sent."""
    if not listener.cors.origins:
        return
    cors = listener.cors
    origin = _allowed(made, listener)
    names = quote(", ".join(cors.headers)) if cors.headers else "$http_access_control_request_headers"
    told = {
        "Methods": quote(", ".join(cors.methods)),
        "Headers": names,
        "Max-Age": str(cors.max_age // 1_000),
    }
    yield Pair(Syntax("Access-Control-Allow-Origin"), origin)
    for name, value in told.items():
        header = Syntax(f"Access-Control-{'' if name == 'Max-Age' else 'Allow-'}{name}")
        variable_name = f"{origin}_{name.lower().replace('-', '_')}"
        entries = [("default", '""'), (regex_word("~^1:."), value)]
        yield Pair(header, made.map(f'"{preflight(made)}:{origin}"', variable_name, entries))
    if cors.credentials:
        sent = made.map(origin, f"{origin}_credentials", [('""', '""'), ("default", "true")])
        yield Pair(Syntax("Access-Control-Allow-Credentials"), sent)
    yield Pair(Syntax("Access-Control-Expose-Headers"), quote(", ".join((*EXPOSED, *cors.expose))))
    yield Pair(Syntax("Vary"), Syntax("Origin"))


def checks(made: Assembly, listener: Listener) -> Iterator[Check]:
    """Yield the check that answers preflights here."""
    if listener.cors.origins:
        yield Check(preflight(made), 204)


def _allowed(made: Assembly, listener: Listener) -> Syntax:
    name = f"$lb_cors_{variable(made.listeners[listener.name])}"
    if "*" in listener.cors.origins:
        return made.map("$http_origin", name, [("default", '"*"')])
    entries = [(regex_word(f"~^{escape_regex(origin)}$"), "$http_origin") for origin in listener.cors.origins]
    return made.map("$http_origin", name, [("default", '""'), *entries])
