"""A plan's changes in words, one line each; servers that change alike share one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.deploy.planning.change import FILES, RUNTIME, UNFINISHED
from lbgen.deploy.runtime.inventory_diff import Lines
from lbgen.fleet.text.yaml_flow import flow
from lbgen.targets.common.service import DROP_IN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.deploy.planning.change import Change

NAMED = 8
"""How many servers that change alike are named."""
_LONGEST = 60
"""Characters of a value that are shown."""
_WHAT_DIFFERS = {"settings": "other settings", "sections": "settings outside the pools, such as listeners"}
"""Words for the parts of a file that no fleet explains; any other is the file's own name."""


def summary(change: Change) -> str:
    """Return a change as one line."""
    return _line(change, [change.server] if change.server else [])


def gathered(changes: Sequence[Change]) -> Iterator[tuple[Change, str]]:
    """Yield the changes with their lines, those that say the same of several servers of a pool as one."""
    groups: dict[Any, list[Change]] = {}
    for change in changes:
        alike = change._replace(server=None, before=None, after=None) if _whole_server(change) else change
        key = repr(alike._replace(server=None)) if change.server else id(change)
        groups.setdefault(key, []).append(change)
    for group in groups.values():
        yield group[0], _line(group[0], [change.server for change in group if change.server])


def how(change: Change) -> str:
    """Return by what a change takes effect."""
    return "runtime socket" if change.effect == RUNTIME else change.effect


def _whole_server(change: Change) -> bool:
    return change.server is not None and change.attribute is None


def _line(change: Change, servers: list[str]) -> str:
    scope = (
        f"pool {change.pool}: " if change.pool else f"listener {change.listener}: " if change.listener else ""
    )
    names = ", ".join(servers[:NAMED]) + (f" and {len(servers) - NAMED} more" if len(servers) > NAMED else "")
    if _whole_server(change):
        address = change.before if change.kind == "removed" else change.after
        known = (
            f" at {address}"
            if len(servers) == 1 and names not in {address, str(address).rpartition(":")[0]}
            else ""
        )
        return f"{scope}{'-' if change.kind == 'removed' else '+'} {names}{known}"
    if change.attribute is None:
        return scope + _whole(change)
    if change.attribute == UNFINISHED:
        return "a previous apply was interrupted before it took effect: a reload is needed"
    if change.attribute.startswith(FILES):
        return scope + _of_file(change.attribute.removeprefix(FILES), change)
    top, _, rest = change.attribute.partition(".")
    if top == "clients":
        client, _, key = rest.partition(".")
        return f"client {client}: {_value(change, key)}"
    return f"{scope}{names}{': ' if names else ''}{_value(change, change.attribute)}"


def _whole(change: Change) -> str:
    value = change.before if change.kind == "removed" else change.after
    if change.listener:
        return f"removed, from {_shown(value)}" if change.kind == "removed" else f"new, on {_shown(value)}"
    number = len(value or ())
    count = f"{number} server{'' if number == 1 else 's'}"
    return f"pool removed, with {count}" if change.kind == "removed" else f"new pool with {count}"


def _of_file(name: str, change: Change) -> str:
    if isinstance(change.after, Lines):
        what = _WHAT_DIFFERS.get(name)
        counts = _counted(change.after)
        if what:
            return f"{what}: {counts}"
        return f"{name} differed from what this version of lbgen renders for the fleet beside it: {counts}"
    installed = "; install it yourself, see its first lines" if name == DROP_IN else ""
    return f"file {name}: {'new' if change.kind == 'added' else change.kind}{installed}"


def _counted(lines: Lines) -> str:
    ways = [(lines.added, "added"), (lines.removed, "removed")]
    told = [f"{number} line{'' if number == 1 else 's'} {way}" for number, way in ways if number]
    return ", ".join(told)


def _value(change: Change, key: str) -> str:
    if key == "order" or key.endswith(".order"):
        return f"{key.removesuffix('order').rstrip('.') or 'servers'} in another order"
    if not key:
        return {"added": "new", "removed": "removed"}.get(change.kind, "changed")
    if change.before is None and change.after is None:
        return f"{key}: the value behind the reference changed"
    longest = 8 * _LONGEST if key in {"key", "keys"} else _LONGEST  # references: the new one may be the last
    if change.kind == "added":
        return f"+ {key} {_shown(change.after, longest)}"
    if change.kind == "removed":
        return f"- {key} {_shown(change.before, longest)}"
    return f"{key} {_shown(change.before, longest)} → {_shown(change.after, longest)}"


def _shown(value: Any, longest: int = _LONGEST) -> str:  # noqa: ANN401 - any plain value
    if value is None:
        return "none"
    text = value if isinstance(value, str) else flow(value)
    return text if len(text) <= longest else f"{text[:longest]}…"
