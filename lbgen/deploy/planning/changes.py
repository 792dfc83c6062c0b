"""What becomes of a fleet: the changes of its keys, and what lies on disk otherwise than it explains.

The fleet that made the files lies beside them, and so fleet is compared with fleet. The files themselves say
what takes effect how; where no fleet lies beside them, they are all that is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.deploy.planning.change import FILES, NONE, RELOAD, RESTART, RUNTIME, Change
from lbgen.deploy.planning.client_keys import clients_changed
from lbgen.deploy.planning.fleet_diff import fleet_changes
from lbgen.deploy.runtime.inventory_diff import Lines, counted, file_changes
from lbgen.files import body
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.fleet.written.show import shown_values
from lbgen.problems import LbgenError
from lbgen.render import FLEET_FILE
from lbgen.targets.common.service import DROP_IN
from lbgen.targets.inventory import statements
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lbgen.files import Change as FileChange
    from lbgen.fleet.load import Loaded
    from lbgen.model import Fleet
    from lbgen.render import RenderedFile
    from lbgen.targets.inventory import Inventory

    Render = Callable[[Fleet], Sequence[RenderedFile]]
_CLIENTS = "clients."


def changes_of(  # noqa: PLR0913 - one value each
    target: str,
    directory: Path,
    files: Sequence[FileChange],
    said: tuple[Inventory, Inventory],
    *,
    socket: bool,
    again: Render | None,
) -> list[Change]:
    """Return what changes from the files that lie in a directory to the new ones, the main file first.

    `said` is what `inventories` reads of them. `again` renders another fleet as the new one was: so is found
    what its fleet does not explain.
    """
    main = files[0]
    in_files = list(file_changes(*said, socket=socket))
    before, after = _fleets(files, directory / FLEET_FILE)
    if after is None or (before is None and main.old):
        changes = in_files
    else:
        changes = _with_effects(_in_fleets(before, after), in_files, reload=_beside_differs(files, directory))
        if before and before.fleet and again:
            changes += _unexplained(main, before.fleet, target, again, in_files)
        if _reloads(in_files) and not _reloads(changes):
            # Whether a reload is needed follows from the files, whatever could be explained of them.
            changes = [one._replace(effect=RELOAD) for one in changes] or [
                _other_lines(main, main.new, RELOAD)
            ]
    others = [file for file in files[1:] if not _is_watched(target, directory, file)]
    changes += _secrets(others, directory, changes)
    return _as_watched(changes, main, target) if TARGETS[target].abilities.watches else changes


def inventories(target: str, directory: Path, files: Sequence[FileChange]) -> tuple[Inventory, Inventory]:
    """Return what the old and the new files say: the main file, and those that are watched beside it."""
    told = [files[0], *(file for file in files[1:] if _is_watched(target, directory, file))]
    old, new = ("\n---\n".join(texts) for texts in zip(*((one.old, one.new) for one in told), strict=True))
    return TARGETS[target].read(old), TARGETS[target].read(new)


def _is_watched(target: str, directory: Path, file: FileChange) -> bool:
    aside = {directory / FLEET_FILE, directory / DROP_IN}
    return TARGETS[target].abilities.watches and not file.secret and file.path not in aside


def restarts(target: str, old: str, new: str) -> bool:
    """Tell whether a target that watches its files has to start anew for what changes in its main file."""
    read = TARGETS[target].read
    return bool(old) and read(old) != read(new)


def _as_watched(changes: Sequence[Change], main: FileChange, target: str) -> list[Change]:
    """Return the changes as they take effect where files are watched: at once, or by a restart."""
    found = [one._replace(effect=RUNTIME) if one.effect == RELOAD else one for one in changes]
    if restarts(target, main.old, main.new):
        found.append(Change("changed", f"{FILES}{main.path.name}", effect=RESTART))
    return found


def _fleets(files: Sequence[FileChange], path: Path) -> tuple[Loaded | None, Loaded | None]:
    """Return the fleet that made the files which lie there, and the one that makes the new ones."""
    texts = next(((file.old, file.new) for file in files if file.path == path), ("", ""))
    loaded = (load([Source(str(path), text)], environ={}) if text else None for text in texts)
    before, after = (one if one and one.fleet and one.document else None for one in loaded)
    return before, after


def _in_fleets(before: Loaded | None, after: Loaded) -> Iterator[Change]:
    empty: dict[str, Any] = {"pools": {}, "listeners": {}, "clients": {}}
    new = empty | _values(after)
    # Where nothing lies yet, only what a fleet is made of is worth telling, not each of its settings.
    old = empty | (_values(before) if before else {key: new[key] for key in new.keys() - empty.keys()})
    yield from fleet_changes(old, new)


def _values(loaded: Loaded) -> dict[str, Any]:
    assert loaded.fleet is not None and loaded.document is not None  # noqa: S101, PT018 - `_fleets` saw to it
    return shown_values(loaded.fleet, loaded.document)


def _with_effects(changes: Iterator[Change], in_files: Sequence[Change], *, reload: bool) -> list[Change]:
    """Return the changes of a fleet with how each takes effect, by what becomes of the files."""
    by_reload, by_socket = (
        {(change.pool, change.server) for change in in_files if change.effect == effect}
        for effect in (RELOAD, RUNTIME)
    )

    def effect(change: Change) -> str:
        if not in_files and not reload:
            return NONE
        alone = (change.pool, change.server) in by_socket - by_reload
        return RUNTIME if alone or (by_socket and not by_reload and not reload) else RELOAD

    return [change._replace(effect=effect(change)) for change in changes]


def _reloads(changes: Sequence[Change]) -> bool:
    return any(change.effect == RELOAD for change in changes)


def _beside_differs(files: Sequence[FileChange], directory: Path) -> bool:
    """Tell whether a file that the balancer reads beside its main file changes."""
    aside = {directory / FLEET_FILE, directory / DROP_IN}
    return any(body(file.old) != body(file.new) for file in files[1:] if file.path not in aside)


def _unexplained(
    main: FileChange, before: Fleet, target: str, again: Render, in_files: Sequence[Change]
) -> Iterator[Change]:
    """Yield the lines that lie there otherwise than this lbgen renders them for the fleet beside them."""
    try:
        text = again(before)[0].text
    except LbgenError:  # such as a secret of the old fleet that is gone
        return
    if TARGETS[target].read(text) != TARGETS[target].read(main.old):
        yield _other_lines(main, text, RELOAD if in_files else NONE)


def _other_lines(main: FileChange, text: str, effect: str) -> Change:
    """Return the change of the main file's lines to another text's."""
    lines = Lines(*counted(list(statements(main.old)), list(statements(text))))
    return Change("changed", f"{FILES}{main.path.name}", None, lines, effect=effect)


def _secrets(files: Sequence[FileChange], directory: Path, told: Sequence[Change]) -> Iterator[Change]:
    """Yield what no fleet tells: new values of the same secrets, and a file for the service manager."""
    known = {key.split(".")[1] for change in told if (key := change.attribute or "").startswith(_CLIENTS)}
    for file in files:
        name = str(file.path.relative_to(directory))
        if name == FLEET_FILE or body(file.old) == body(file.new):
            continue
        kind = {"new": "added", "stale": "removed"}.get(file.kind, "changed")
        clients = list(clients_changed(file.old, file.new))
        for client in clients:
            if client not in known:
                yield Change("changed", f"{_CLIENTS}{client}.keys")
        if not clients and (name == DROP_IN or not told):
            yield Change(kind, f"{FILES}{name}", effect=RESTART if name == DROP_IN else RELOAD)
