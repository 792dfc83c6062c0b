"""The path that the server sees, where a route takes a prefix off or puts one on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.targets.nginx.language.quoting import escape_regex, joined, regex_word
from lbgen.targets.nginx.views import NOTHING, Check
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.model import Route
    from lbgen.targets.nginx.assembly import Assembly


NO_PATH = '"/ "'
"""What no request line can hold: NGINX refuses a space in it."""


class Public(NamedTuple):
    """A route's path as clients know it, and servers do not."""

    prefix: Syntax
    """The variable with what was taken off, without a slash at its end."""
    lines: tuple[Syntax, ...]
    """Directives that put it before the paths in answers."""


def public(made: Assembly, route: Route, hosts: Sequence[str], *, redirects: bool) -> Public | None:
    """Return what makes servers' answers fit the path that clients know; None: it is the servers' own.

    `hosts`: the names that servers are told. `redirects`: they send some (gRPC does not).
    """
    if not route.strip_prefix or not route.match.paths:
        return None
    number = made.number("prefix")
    ways = "|".join(_taken_off(route))
    found = f"lb_prefix_{number}_off"
    entries = [("default", '""'), (regex_word(f"~^(?<{found}>{ways})(?:[/?]|$)"), f"${found}")]
    prefix = made.map("$request_uri", f"$lb_prefix_{number}", entries)
    return Public(prefix, tuple(_answer_lines(route, prefix, hosts, ways)) if redirects else ())


def _taken_off(route: Route) -> Iterator[str]:
    named = "/[^/?]+" if route.match.path_model else ""
    for path in sorted(route.match.paths, key=len, reverse=True):
        yield f"{escape_regex(path.rstrip('/'))}{named}"


def _answer_lines(route: Route, prefix: Syntax, hosts: Sequence[str], ways: str) -> Iterator[Syntax]:
    """Yield the directives for `Location` and for the path of cookies; what has the prefix keeps it."""
    add = escape_regex(route.add_prefix.rstrip("/"))
    own = "" if add else f"(?!(?:{ways})(?:/|$))"
    # Else NGINX puts its own scheme and port before each path that it changed (seen on 1.22.1).
    yield Syntax("absolute_redirect off")
    for scheme in ("http", "https"):
        for name in dict.fromkeys(hosts):
            begun = f"{scheme}://{name}"
            if not add:
                yield Syntax(f'proxy_redirect "{begun}{prefix}/" "{prefix}/"')
            yield Syntax(f'proxy_redirect "{begun}{route.add_prefix.rstrip("/")}/" "{prefix}/"')
    rest = f"lb_{prefix.removeprefix('$lb_')}_to"
    yield Syntax(f'proxy_redirect {regex_word(f"~^{add}(?=/(?!/)){own}(?<{rest}>/.*)$")} "{prefix}${rest}"')
    yield Syntax(f'proxy_cookie_path {regex_word(f"~^{add}/?$")} "{prefix}"')
    yield Syntax(f'proxy_cookie_path {regex_word(f"~^{add}{own}(?<{rest}>/.+)$")} "{prefix}${rest}"')


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
