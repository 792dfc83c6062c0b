"""A fleet file in the making: values with where they come from and the comments that stand at them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.fleet.kinds import NAME_PATTERN

if TYPE_CHECKING:
    from collections.abc import Container

    from lbgen.problems import Location

Tree = dict[str, Any]
"""Mappings of mappings, lists of `Said`, and `Said` at the ends."""


class Said(NamedTuple):
    """A value of the fleet file, written on one line."""

    value: Any
    place: Location | None = None
    """The directive that it comes from."""
    above: tuple[str, ...] = ()
    """Comments on lines of their own before it."""
    beside: str = ""
    """A comment behind it."""


class Draft:
    """The parts of a fleet file."""

    def __init__(self) -> None:
        self.pools: dict[str, Tree] = {}
        self.listeners: dict[str, Tree] = {}
        self.clients: dict[str, Tree] = {}
        self.metrics: Tree = {}
        self.logs: Tree = {}
        self.targets: dict[str, Tree] = {}
        self.secrets: list[tuple[str, str, Location]] = []
        """References that the fleet has in place of a secret, what they stand for, and where that stood."""

    def tree(self) -> Tree:
        """Return everything, in the order of the field table."""
        whole: Tree = {"version": Said(1), "pools": self.pools, "listeners": self.listeners}
        for key in ("clients", "metrics", "logs", "targets"):
            if getattr(self, key):
                whole[key] = getattr(self, key)
        return whole

    def secret(self, name: str, what: str, location: Location) -> str:
        """Return a reference to a secret that has to come from the environment."""
        word = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper() or "KEY"
        word = f"KEY_{word}" if word[0].isdigit() else word
        taken = {reference for reference, _, _ in self.secrets}
        reference = f"env:{free_name(word, {one.removeprefix('env:') for one in taken}, '_')}"
        self.secrets.append((reference, what, location))
        return reference


def free_name(text: str, taken: Container[str], join: str = "-") -> str:
    """Return a name as pools, listeners and clients may have it, like the text, that is not taken."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:50] or "pool"
    name = name.removeprefix("x-") or "x"
    assert re.fullmatch(NAME_PATTERN, name)  # noqa: S101 - what the lines above are for
    found, number = name, 2
    while found in taken:
        found, number = f"{name}{join}{number}", number + 1
    return found
