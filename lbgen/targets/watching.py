"""Servers of a program that watches its files: taken out by a file, seen on a page of its own.

A target of this kind has a module `watched` with `WATCHED`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lbgen.model import Fleet
    from lbgen.targets.inventory import Inventory


class RunningHost(NamedTuple):
    """One address of a pool, as the running program tells of it."""

    pool: str
    address: str
    """As `read` has it."""
    hostname: str
    """The name that led to the address; empty where the file says the address."""
    state: str
    """``up``, ``drain``, ``down`` or ``ejected``: why it gets no requests, or that it does."""
    check: str
    """The last health check: ``passed``, ``failed`` or ``timed out``."""
    weight: int
    backup: bool
    in_flight: int
    connections: int
    requests: int
    """Since it was added."""
    failed: int
    """Of these, answered by a status of 5xx or not at all."""


class Process(NamedTuple):
    """What the running program says of itself."""

    version: str
    uptime_s: int
    hosts: tuple[RunningHost, ...]
    ejections: Mapping[str, int]
    """By pool: how often a server was ejected since the pool is known."""


class Watched(Protocol):
    """How one target's servers are taken out and seen while it runs."""

    pages: tuple[str, ...]
    """Paths at the door that `process` reads, in its order."""
    pools_file: str
    """The file that says how the servers of pools are reached."""

    def servers_file(self, fleet: Fleet, pool: str) -> str:
        """Return the file with the pool's servers alone; raises `ValueError` with why there is none."""

    def holds(self, text: str) -> frozenset[str]:
        """Return the servers that were taken out in this file by `hold`; of other text, none."""

    def hold(self, text: str, names: Collection[str]) -> str:
        """Return the file with these servers taken out, and back all others that `hold` took out.

        Raises `ValueError` for a text that is no such file, or has none of that name.
        """

    def joined(self, old: str, new: str) -> str:
        """Return the new file of a pool with those servers of the old one that are in use added to it."""

    def reached(self, text: str, pool: str) -> object:
        """Return how the servers of a pool are spoken to and checked, of the text of `pools_file`."""

    def process(self, pages: tuple[str, ...]) -> Process:
        """Read its pages; raises `ValueError` for what they cannot be."""


def watched(target: str) -> Watched | None:
    """Return how a target's servers are seen and taken out by files; None where they are not."""
    place = f"lbgen.targets.{target}.watched"
    if find_spec(place) is None:
        return None
    found: Watched = import_module(place).WATCHED
    return found


def names_of(file: Inventory, pool: str) -> dict[str, str]:
    """Return the names of a pool's servers by their addresses."""
    entries = file.pools[pool].servers if pool in file.pools else {}
    return {entry.address: name for name, entry in entries.items()}
