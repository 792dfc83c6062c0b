"""What putting a fleet into effect would change: a value, bound to the bytes it was made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.deploy.backup import Backup
from lbgen.deploy.inventory import READERS
from lbgen.deploy.side_words import side_words
from lbgen.deploy.words import Step, steps
from lbgen.files import compare, diff
from lbgen.render import fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lbgen.deploy.inventory import Inventory
    from lbgen.deploy.kept import Kept
    from lbgen.files import Change
    from lbgen.render import RenderedFile


MAX_CHANGE = 0.3
"""How much of a pool may be taken out at once without being asked for."""


class Loss(NamedTuple):
    """Servers of a pool that would get no more requests."""

    pool: str
    lost: int
    had: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.lost / self.had

    @property
    def needed(self) -> int:
        """The percentage that ``--max-change`` has to allow."""
        return -(-100 * self.lost // self.had)


class Plan(NamedTuple):
    """The difference between the files on disk and the rendered ones."""

    target: str
    steps: tuple[Step, ...]
    changes: tuple[Change, ...]
    losses: tuple[Loss, ...]
    digest: str
    """Stands for the old and the new bytes of every file: another hand's edit changes it."""
    unfinished: bool = False
    """True: an apply was killed half-way, so that nobody knows which files the balancer runs."""
    loaded: bool = False
    """The files lay there already, but the balancer ran others, and was made to load them."""
    kept: tuple[Kept, ...] = ()
    """Servers that were drained at run time and stay so, as far as is known."""

    @property
    def reload(self) -> bool:
        return any(step.reload for step in self.steps)

    @property
    def is_empty(self) -> bool:
        return not self.unfinished and all(change.kind == "same" for change in self.changes)

    @property
    def foreign(self) -> tuple[Change, ...]:
        """Files in the way that lbgen did not write."""
        return tuple(change for change in self.changes if change.kind == "foreign")

    def diff(self) -> str:
        """Return the unified text difference, secrets masked."""
        return diff(self.changes)


def make_plan(target: str, directory: Path, files: Sequence[RenderedFile], *, socket: bool = False) -> Plan:
    """Compare the rendered files with the directory; raises `LbgenError` for what cannot be read."""
    changes = tuple(compare(directory, files))
    read = READERS[target]
    old, new = read(changes[0].old), read(changes[0].new)
    found = list(steps(old, new, socket=socket and target == "haproxy"))
    found += [
        Step("", words, reload=True)
        for change in changes[1:]
        for words in side_words(change, str(change.path.relative_to(directory)))
    ]
    unfinished = Backup(directory, files[0].path).unfinished
    if unfinished:
        found.append(
            Step("", "an apply was stopped before it took effect: a reload makes up for it", reload=True)
        )
    digest = _digest(directory, changes)
    return Plan(target, tuple(found), changes, tuple(_losses(old, new)), digest, unfinished)


def _digest(directory: Path, changes: Sequence[Change]) -> str:
    return fingerprint(
        (
            (text, change.secret)
            for change in changes
            for text in (str(change.path.relative_to(directory)), change.old, change.new)
        ),
        length=16,
    )


def _losses(old: Inventory, new: Inventory) -> list[Loss]:
    losses = []
    for name, pool in old.pools.items():
        serving = {server for server, entry in pool.servers.items() if entry.state == "up"}
        after = new.pools[name].servers if name in new.pools else {}
        lost = {server for server in serving if server not in after or after[server].state != "up"}
        if lost:
            losses.append(Loss(name, len(lost), len(serving)))
    return losses
