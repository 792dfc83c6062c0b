"""The path that the server sees, where a route takes a prefix off or puts one on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.nginx.quoting import escape_regex, joined, regex_word
from lbgen.targets.nginx.views import NOTHING, Check
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Route
    from lbgen.targets.nginx.assembly import Assembly


NO_PATH = '"/ "'
"""What no request line can hold: NGINX refuses a space in it."""


def upstream_uri(made: Assembly, route: Route) -> tuple[Syntax, tuple[Check, ...]]:
    """Return the variable with the server's path and query, and the check that goes with it; or nothing.

    Its every value begins with a slash, so that none can reach the host's name in `proxy_pass`.

    Made from the request line as the client sent it: a `proxy_pass` with a path, or `rewrite`, would decode
    `%2F` (seen on 1.22.1: `/v1/a%2Fb` became `/v1/a/b`).
    """
    if not route.strip_prefix and not route.add_prefix:
        return NOTHING, ()
    add = route.add_prefix.rstrip("/") + "/"
    # The map's own capture names, since a name holds what the last map that set it left there.
    number = made.number("uri")
    variable = Syntax(f"$lb_uri_{number}")
    made.map("$request_uri", variable, [("default", NO_PATH), *_entries(route, add, number)])
    # A path that fits the location only after decoding: no server should see it half-stripped.
    return variable, (Check(Syntax(f"{variable} = {NO_PATH}"), 404),)


def _entries(route: Route, add: str, number: int) -> Iterator[tuple[str, str]]:
    rest, query = f"lb_rest_{number}", f"lb_query_{number}"
    if not route.strip_prefix or not (route.match.paths or route.match.paths_exact):
        yield regex_word(f"~^/(?<{rest}>.*)$"), joined(add, f"${rest}")
        return
    for path in sorted(route.match.paths_exact, key=len, reverse=True):
        yield regex_word(rf"~^{escape_regex(path)}(?<{query}>\?.*)?$"), joined(add, f"${query}")
    for path in sorted(route.match.paths, key=len, reverse=True):
        prefix = escape_regex(path.rstrip("/"))
        named = "/[^/?]+" if route.match.path_model else ""
        pattern = rf"~^{prefix}{named}(?:/(?<{rest}>[^?]*))?(?<{query}>\?.*)?$"
        yield regex_word(pattern), joined(add, f"${rest}${query}")
