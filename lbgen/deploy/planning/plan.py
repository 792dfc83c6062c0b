"""What putting a fleet into effect would change: a value, bound to the bytes it was made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.deploy.backup import Backup
from lbgen.deploy.planning.change import FILES, RELOAD, RESTART, UNFINISHED, Change
from lbgen.deploy.planning.changes import changes_of, inventories
from lbgen.deploy.runtime.watched_files import files_with_held
from lbgen.files import compare, diff
from lbgen.render import fingerprint
from lbgen.targets.common.service import DROP_IN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lbgen.deploy.planning.changes import Render
    from lbgen.deploy.runtime.kept import Kept
    from lbgen.files import Change as FileChange
    from lbgen.render import RenderedFile
    from lbgen.targets.inventory import Inventory, ServerEntry

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
    changes: tuple[Change, ...]
    files: tuple[FileChange, ...]
    losses: tuple[Loss, ...]
    digest: str
    """Stands for the old and the new bytes of every file: another hand's edit changes it."""
    unfinished: bool = False
    """True: an apply was killed half-way, so that nobody knows which files the balancer runs."""
    loaded: bool = False
    """The files lay there already, but the balancer ran others, and was made to load them."""
    in_effect: bool = True
    """After an apply: False where the files were replaced, and nothing made the balancer load them."""
    kept: tuple[Kept, ...] = ()
    """Servers that were drained at run time and stay so, as far as is known."""

    @property
    def reload(self) -> bool:
        """Whether the balancer has to be reloaded or restarted; the service manager's file does not count."""
        return any(
            change.effect in {RELOAD, RESTART} and change.attribute != f"{FILES}{DROP_IN}"
            for change in self.changes
        )

    @property
    def is_empty(self) -> bool:
        return not self.unfinished and all(file.kind == "same" for file in self.files)

    @property
    def foreign(self) -> tuple[FileChange, ...]:
        """Files in the way that lbgen did not write."""
        return tuple(file for file in self.files if file.kind == "foreign")

    def diff(self) -> str:
        """Return the unified text difference, secrets masked."""
        return diff(self.files)


def make_plan(
    target: str,
    directory: Path,
    files: Sequence[RenderedFile],
    *,
    socket: bool = False,
    again: Render | None = None,
) -> Plan:
    """Compare the rendered files with the directory; raises `LbgenError` for what cannot be read.

    `again` renders another fleet in the same way: so is told what lies there otherwise than its fleet says.
    """
    files, held = files_with_held(target, directory, files)
    compared = tuple(compare(directory, files))
    said = inventories(target, directory, compared)
    changes = changes_of(target, directory, compared, said, socket=socket, again=again)
    if unfinished := Backup(directory, files[0].path).unfinished:
        changes.append(Change("changed", UNFINISHED))
    losses = tuple(_losses(*said))
    return Plan(target, tuple(changes), compared, losses, _digest(directory, compared), unfinished, kept=held)


def _digest(directory: Path, changes: Sequence[FileChange]) -> str:
    return fingerprint(
        (
            (text, change.secret)
            for change in changes
            for text in (str(change.path.relative_to(directory)), change.old, change.new)
        ),
        length=16,
    )


def _now(name: str, serving: set[str], old: Inventory, new: Inventory) -> Mapping[str, ServerEntry]:
    """Return a pool's servers in the new files, also where it has another name there."""
    if name in new.pools:
        return new.pools[name].servers
    others = (pool.servers for other, pool in new.pools.items() if other not in old.pools)
    return next((servers for servers in others if serving <= set(servers)), {})


def _losses(old: Inventory, new: Inventory) -> list[Loss]:
    losses = []
    for name, pool in old.pools.items():
        serving = {server for server, entry in pool.servers.items() if entry.state == "up"}
        after = _now(name, serving, old, new)
        lost = {server for server in serving if server not in after or after[server].state != "up"}
        if lost:
            losses.append(Loss(name, len(lost), len(serving)))
    return losses
