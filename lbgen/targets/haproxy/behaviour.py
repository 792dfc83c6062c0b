"""How HAProxy chooses servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.strategies.choosers.counts import IdleFirst, TwoDraws
from lbgen.strategies.choosers.sessions import waiting
from lbgen.strategies.prefix import prefix_of
from lbgen.targets.behaviour import Behaviour
from lbgen.targets.haproxy.pools.learned import sticks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.model import Fleet, Pool


def _further(fleet: Fleet, pool: Pool) -> Mapping[str, object]:
    hashed = prefix_of(pool) is not None and not sticks(fleet, pool)
    return {"hashed": True} if hashed else {}


BEHAVIOUR = Behaviour({"least_conn": IdleFirst, "random_two": TwoDraws, "session": waiting}, sticks, _further)
