"""How a target behaves while it runs, for whoever predicts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lbgen.model import Fleet, Pool
    from lbgen.vocabulary import Chooser


def _never(_fleet: Fleet, _pool: Pool) -> bool:
    return False


def _nothing(_fleet: Fleet, _pool: Pool) -> Mapping[str, object]:
    return {}


class Behaviour(NamedTuple):
    """How a target chooses servers, beside what its `Abilities` say."""

    choosers: Mapping[str, Callable[[Mapping[str, Any]], Chooser]] = {}
    """By strategy: makes a balancer's chooser from the parameters, where it is not the strategy's own."""
    learns: Callable[[Fleet, Pool], bool] = _never
    """Tells whether it learns where requests of a pool belong, and can be made to forget it."""
    further: Callable[[Fleet, Pool], Mapping[str, object]] = _nothing
    """Returns more parameters for the chooser of a pool, where versions or settings make a difference."""
