"""How Envoy chooses servers: its workers share the numbers of requests in flight (1.36, 1.40)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.strategies.choosers.counts import TwoDraws
from lbgen.strategies.choosers.rings import EvenSession, HashedPrefix, UnboundedSession
from lbgen.strategies.session import SessionParameters
from lbgen.targets.behaviour import Behaviour

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.vocabulary import Chooser


def _session(parameters: Mapping[str, Any]) -> Chooser:
    strict = SessionParameters.of(parameters).strict
    return UnboundedSession({}) if strict else EvenSession(parameters)


BEHAVIOUR = Behaviour({"random_two": TwoDraws, "session": _session, "prefix": HashedPrefix})
