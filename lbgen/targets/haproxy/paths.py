"""The path that the server sees, where a route takes a prefix off or puts one on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.quoting import format_word, quote

if TYPE_CHECKING:
    from lbgen.model import Route


def rewrite_rule(route: Route) -> str:
    """Return the rule that changes the path; the rest of it stays as the client sent it, like the query."""
    add = route.add_prefix.rstrip("/") + "/"
    replacement = format_word(add.replace("\\", "\\\\") + "\\1")
    return f"http-request replace-path {quote(path_regex(route))} {replacement}"


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


def escape_regex(text: str) -> str:
    """Return a regular expression that matches just this text."""
    return "".join(c if c.isalnum() or c in "_-/" or ord(c) > 127 else f"\\x{ord(c):02x}" for c in text)
