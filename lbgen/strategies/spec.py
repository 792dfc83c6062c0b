"""What a strategy is: a name, parameters, a purpose, and how a balancer chooses by it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from lbgen.fields import Field, Group

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.vocabulary import Chooser


class MadeBy(NamedTuple):
    """A chooser of `lbgen.strategies.choosers` by its name, imported when used: rendering never needs it."""

    module: str
    name: str

    def __call__(self, parameters: "Mapping[str, Any]") -> "Chooser":
        """Make a balancer's chooser."""
        module = import_module(f"lbgen.strategies.choosers.{self.module}")
        return cast("Chooser", getattr(module, self.name)(parameters))


class Strategy(NamedTuple):
    """A way to spread requests over the servers of a pool."""

    name: str
    aliases: tuple[str, ...]
    summary: str
    """One line: what it equalises."""
    advice: str
    """When to use it and when not, with the source of each number."""
    parameters: tuple[Field, ...]
    chooser: MadeBy
    """Makes a balancer's chooser from the parameters, as the strategy is meant; a target may have its own."""
    needs: frozenset[str] = frozenset()
    """What it must know of a request: ``session``, ``prefix``, ``kv``."""
    groups: tuple[Group, ...] = ()
    """Which parameters exclude each other."""
