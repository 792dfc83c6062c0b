"""Admin paths of engines, refused in whatever spelling: the path is looked at as the server will see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import ENGINES
from lbgen.targets.common.paths import admin_regex
from lbgen.targets.haproxy.language.quoting import quote
from lbgen.targets.haproxy.language.words import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Pool

_CHANGING = " !{ method GET HEAD OPTIONS }"
_WORDS = 40
"""A line has at most 64."""


def admin_rules(pool: Pool) -> Iterator[str]:
    """Yield a backend's rules against those who may not call its engine's admin paths."""
    paths = ENGINES[pool.engine].admin
    if pool.admin.open or not paths:
        return
    allowed = (("src", pool.admin.networks), ("var(txn.lb_client) -m str", pool.admin.clients))
    for sample, names in allowed:
        for start in range(0, len(names), _WORDS):
            words = " ".join(map(quote, names[start : start + _WORDS]))
            yield f"acl may_administer {sample} -- {words}"
    welcome = " !may_administer" if any(names for _, names in allowed) else ""
    for name, found, method in (("admin_path", paths.all, ""), ("admin_change", paths.changing, _CHANGING)):
        if found:
            yield f"acl {name} path,url_dec -m reg -i -- {quote(admin_regex(found))}"
            yield f"{refuse('admin_refused')} if {name}{method}{welcome}"
