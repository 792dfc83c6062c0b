"""What a strategy is: a name, parameters, a purpose, and how each balancer chooses by it."""

from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.fields import Field, Group

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lbgen.vocabulary import Chooser


class Strategy(NamedTuple):
    """A way to spread requests over the servers of a pool."""

    name: str
    aliases: tuple[str, ...]
    summary: str
    """One line: what it equalises."""
    advice: str
    """When to use it and when not, with the source of each number."""
    parameters: tuple[Field, ...]
    choosers: "Mapping[str, Callable[[Mapping[str, Any]], Chooser]]"
    """By flavour (``nginx``, ``haproxy``, ``ideal``): makes a balancer's chooser from the parameters."""
    needs: frozenset[str] = frozenset()
    """What it must know of a request: ``session``, ``prefix``, ``kv``."""
    groups: tuple[Group, ...] = ()
    """Which parameters exclude each other."""
