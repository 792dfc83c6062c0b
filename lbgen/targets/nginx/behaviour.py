"""How NGINX chooses servers, by what its version and its modules can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.strategies.choosers.counts import LeastConn
from lbgen.strategies.choosers.learned import LearnedPrefix
from lbgen.strategies.choosers.rings import UnboundedPrefix, UnboundedSession
from lbgen.strategies.choosers.sessions import Remembered
from lbgen.strategies.prefix import prefix_of
from lbgen.strategies.session import SessionParameters
from lbgen.targets.behaviour import Behaviour
from lbgen.targets.nginx.pools.affinity import Homes, homes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.model import Fleet, Pool
    from lbgen.vocabulary import Chooser

_WAY = "way"


def session(parameters: Mapping[str, Any]) -> Chooser:
    """Return the chooser of the versions that remember: who finds the home full gets another one."""
    by = SessionParameters.of(parameters)
    if by.learn or by.insert:
        return Remembered(LeastConn({}), waits=False)
    return Remembered(UnboundedSession({}), waits=False) if by.strict else UnboundedSession({})


def prefix(parameters: Mapping[str, Any]) -> Chooser:
    """Return the chooser of one of the `Homes`: the script decides as the strategy is meant."""
    way = parameters.get(_WAY)
    if way == Homes.SCRIPT:
        return LearnedPrefix(parameters)
    hashed = UnboundedPrefix(parameters)
    if way == Homes.STICKY:
        return Remembered(LeastConn({}), waits=False, name=hashed.key_of)
    return hashed


def _further(fleet: Fleet, pool: Pool) -> Mapping[str, object]:
    return {_WAY: homes_of(fleet, pool, fleet.target("nginx"))} if prefix_of(pool) else {}


BEHAVIOUR = Behaviour({"session": session, "prefix": prefix}, further=_further)
