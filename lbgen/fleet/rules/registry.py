"""Every rule by its code: what `check` runs, what the reference documents, what the tests go through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.fleet.rules.edge.exposure import RULES as EXPOSURE
from lbgen.fleet.rules.edge.listeners import RULES as LISTENERS
from lbgen.fleet.rules.edge.ports import RULES as PORTS
from lbgen.fleet.rules.edge.routes import RULES as ROUTES
from lbgen.fleet.rules.pools.addresses import RULES as ADDRESSES
from lbgen.fleet.rules.pools.capacity import RULES as CAPACITY
from lbgen.fleet.rules.pools.health import RULES as HEALTH
from lbgen.fleet.rules.pools.models import RULES as MODELS
from lbgen.fleet.rules.pools.retries import RULES as RETRIES
from lbgen.fleet.rules.pools.sessions import RULES as SESSIONS
from lbgen.fleet.rules.pools.timeouts import RULES as TIMEOUTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.fleet.rules.rule import Rule

THEMES: Mapping[str, tuple[Rule, ...]] = {
    "Time": TIMEOUTS,
    "Health": HEALTH,
    "Retries": RETRIES,
    "Capacity": CAPACITY,
    "Sessions": SESSIONS,
    "Addresses and names": ADDRESSES,
    "The balancer's own addresses": PORTS,
    "Listeners": LISTENERS,
    "Routes": (*ROUTES, *MODELS),
    "Who can reach what": EXPOSURE,
}
"""Title of a theme -> its rules, in the order in which they run and are documented."""

RULES: Mapping[str, Rule] = {rule.code: rule for rules in THEMES.values() for rule in rules}
