"""Every strategy. A new one is one file and one line here, and a row in each target's table."""

from collections.abc import Mapping

from lbgen.strategies.kv_cache import KV_CACHE
from lbgen.strategies.least_conn import LEAST_CONN
from lbgen.strategies.pack import PACK
from lbgen.strategies.prefix import PREFIX
from lbgen.strategies.random_two import RANDOM_TWO
from lbgen.strategies.round_robin import ROUND_ROBIN
from lbgen.strategies.session import SESSION
from lbgen.strategies.spec import Strategy

STRATEGIES: Mapping[str, Strategy] = {
    strategy.name: strategy
    for strategy in (ROUND_ROBIN, LEAST_CONN, RANDOM_TWO, SESSION, PREFIX, KV_CACHE, PACK)
}
"""By canonical name, the simplest first."""

DEFAULT_STRATEGY = LEAST_CONN.name

ALIASES: Mapping[str, str] = {
    spelling: strategy.name
    for strategy in STRATEGIES.values()
    for name in (strategy.name, *strategy.aliases)
    for spelling in (name, name.replace("_", "-"))
    if spelling != strategy.name
}
"""Other names that are accepted, with underscores or hyphens, and the canonical names that they stand for."""
