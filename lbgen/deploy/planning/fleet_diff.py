"""The difference between two fleets, key by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.deploy.planning.change import Change

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Keys = tuple[str, ...]

_ABSENT = object()
_OWNERS = {"pools": "pool", "listeners": "listener"}


def fleet_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Yield what differs between two fleets as `lbgen.fleet.written.show.shown_values` gives them.

    Servers and routes are compared by name. A pool, listener, client or server as a whole is one change.
    """
    for keys, before, after in _differences(old, new, ()):
        yield _change(keys, before, after)


def _differences(before: Any, after: Any, keys: Keys) -> Iterator[tuple[Keys, Any, Any]]:  # noqa: ANN401 - plain values
    if before == after:
        return
    if keys[-1:] == ("strategy",) and before["name"] != after["name"]:
        # The parameters of one strategy say nothing beside those of another.
        yield keys, before["name"], after["name"]
    elif isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            yield from _differences(before.get(key, _ABSENT), after.get(key, _ABSENT), (*keys, key))
    elif (named := _by_name(before)) is not None and (others := _by_name(after)) is not None:
        yield from _differences(named, others, keys)
        common = [
            [name for name in one if name in other] for one, other in ((named, others), (others, named))
        ]
        if common[0] != common[1]:
            yield (*keys, "order"), common[0], common[1]
    else:
        yield keys, before, after


def _by_name(values: Any) -> dict[str, Any] | None:  # noqa: ANN401 - plain values
    """Return a list of named things by name; None for any other value."""
    if not isinstance(values, list) or not all(
        isinstance(value, dict) and "name" in value for value in values
    ):
        return None
    return {value["name"]: value for value in values}


def _change(keys: Keys, before: Any, after: Any) -> Change:  # noqa: ANN401 - plain values
    kind = "added" if before is _ABSENT else "removed" if after is _ABSENT else "changed"
    pool = listener = server = None
    if keys[0] in _OWNERS and len(keys) > 1:
        pool, listener = (keys[1], None) if keys[0] == "pools" else (None, keys[1])
        keys = keys[2:]
    if pool and keys[:1] == ("servers",) and len(keys) > 1 and keys[1] != "order":
        server, keys = keys[1], keys[2:]
    attribute = ".".join(keys) or None
    return Change(
        kind, attribute, _brief(before, attribute), _brief(after, attribute), pool, server, listener
    )


def _brief(value: Any, attribute: str | None) -> Any:  # noqa: ANN401 - plain values
    """Return a value as a change tells it: of a pool its servers, of a server or listener its address."""
    if value is _ABSENT:
        return None
    if attribute is None and isinstance(value, dict):
        servers = value.get("servers")
        if servers is not None:
            return [server["name"] for server in servers]
        return value.get("address", value.get("bind"))
    return value
