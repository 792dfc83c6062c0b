"""The path that the server sees, where a route takes a prefix off or puts one on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.paths import escape_regex
from lbgen.targets.haproxy.language.quoting import format_word, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Route


def rewrite_rule(route: Route) -> str:
    """Return the rule that changes the path; the rest of it stays as the client sent it, like the query."""
    add = route.add_prefix.rstrip("/") + "/"
    replacement = format_word(add.replace("\\", "\\\\") + "\\1")
    return f"http-request replace-path {quote(path_regex(route))} {replacement}"


def prefix_rules(route: Route) -> Iterator[str]:
    """Yield the rules that tell servers which prefix was taken off, behind that of a trusted proxy."""
    if not route.strip_prefix or not route.match.paths:
        return
    pattern = quote(f"^({'|'.join(_taken_off(route))})(?:/.*)?$")
    yield "http-request set-var-fmt(txn.lb_outer) %[req.fhdr(X-Forwarded-Prefix)]"
    yield "http-request set-header X-Forwarded-Prefix %[path]"
    yield f"http-request replace-value X-Forwarded-Prefix {pattern} '\\1'"
    yield "http-request set-var(txn.lb_prefix) req.fhdr(X-Forwarded-Prefix)"
    yield "http-request set-header X-Forwarded-Prefix %[var(txn.lb_outer)]%[var(txn.lb_prefix)]"


def answer_rules(route: Route) -> Iterator[str]:
    """Yield the backend's rules that put the prefix before the paths in answers; what has it keeps it."""
    if not route.strip_prefix or not route.match.paths:
        return
    add = escape_regex(route.add_prefix.rstrip("/"))
    own = "" if add else f"(?!(?:{'|'.join(_taken_off(route))})(?:/|$))"
    own_cookie = "" if add else f"(?!(?:{'|'.join(_taken_off(route))})(?:[/ ;]|$))"
    prefix = "%[var(txn.lb_prefix)]"
    begun = "'^https?://[^/]+(/.*)$' '\\1'"
    for name in ("lb_authority", "lb_known_as"):
        here = f"{{ res.hdr(Location),regsub(^https?://,),field(1,/),strcmp(txn.{name}) eq 0 }}"
        yield f"http-response replace-header Location {begun} if {here}"
    yield f"http-response replace-header Location {quote(f'^{add}(?=/(?!/)){own}(/.*)$')} '{prefix}\\1'"
    cookie = "^(.*?; *(?i:path)=)"
    yield f"http-response replace-header Set-Cookie {quote(f'{cookie}{add}/? *(;.*)?$')} '\\1{prefix}\\2'"
    yield (
        f"http-response replace-header Set-Cookie {quote(f'{cookie}{add}{own_cookie}(/[^;].*)$')}"
        f" '\\1{prefix}\\2'"
    )


def _taken_off(route: Route) -> Iterator[str]:
    named = "/[^/]+" if route.match.path_model else ""
    for path in sorted(route.match.paths, key=len, reverse=True):
        yield f"{escape_regex(path.rstrip('/'))}{named}"


def path_regex(route: Route) -> str:
    """Return what the path has to look like, as the client spelled it; the first group is what stays."""
    if not route.strip_prefix or not (route.match.paths or route.match.paths_exact):
        return "^/(.*)$"
    prefixes = sorted((path.rstrip("/") for path in route.match.paths), key=len, reverse=True)
    exact = sorted(route.match.paths_exact, key=len, reverse=True)
    named = "/[^/]+" if route.match.path_model else ""
    ways = [f"(?:{'|'.join(map(escape_regex, prefixes))}){named}(?:/(.*))?"] if prefixes else []
    ways += [f"(?:{'|'.join(map(escape_regex, exact))})"] if exact else []
    # Without prefixes there would be no first group for the replacement.
    return f"^(?:{'|'.join(ways)}){'' if prefixes else '()'}$"
