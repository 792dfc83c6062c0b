"""Admin paths of engines, refused in whatever spelling: `$uri` is decoded, its slashes are merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import ENGINES
from lbgen.targets.common.paths import admin_regex
from lbgen.targets.nginx.guards.access import within
from lbgen.targets.nginx.language.quoting import escape_regex, regex_word
from lbgen.targets.nginx.language.words import variable
from lbgen.targets.nginx.views import Check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener, Pool, Route
    from lbgen.targets.nginx.assembly import Assembly

ADMIN_REFUSED = 471
"""No status of HTTP: the number by which `error_page` knows the answer for admin paths."""


def admin_check(made: Assembly, listener: Listener, route: Route, pool: Pool) -> Iterator[Check]:
    """Yield the check for those who may not call the admin paths of this pool's engine by this route."""
    paths = ENGINES[pool.engine].admin
    if pool.admin.open:
        return
    # What the route takes off the path, and puts before it, the client does not write.
    taken = (*route.match.paths, *route.match.paths_exact) if route.strip_prefix else ()
    entries = []
    for found, method in ((paths.all, "[^:]*"), (paths.changing, "(?!(?:GET|HEAD|OPTIONS):)[^:]*")):
        regex = admin_regex(found, taken, route.add_prefix)
        if regex:
            entries.append((regex_word(f"~*^{method}:{regex.removeprefix('^')}"), "1"))
    if not entries:
        return
    admin = made.flag('"$request_method:$uri"', [("default", "0"), *entries])
    welcome = _welcome(made, listener, pool)
    if welcome:
        admin = made.flag(f'"{admin}-{welcome}"', [("default", "0"), (regex_word("~^1-$"), "1")])
    yield Check(admin, ADMIN_REFUSED)


def _welcome(made: Assembly, listener: Listener, pool: Pool) -> str:
    """Return variables of which one is not empty for who may call them."""
    found = ""
    if pool.admin.networks:
        word = f"admin_{variable(made.upstreams[pool.name])}"
        found += within(made, listener, pool.admin.networks, word)
    if pool.admin.clients:
        names = "|".join(map(escape_regex, pool.admin.clients))
        found += made.flag("$lb_client", [("default", '""'), (regex_word(f"~^(?:{names})$"), "1")])
    return found
