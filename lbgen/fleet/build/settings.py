"""What is not traffic: balancers, metrics, logs, targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.fields import INVALID
from lbgen.fleet.build.context import items, usable
from lbgen.fleet.schema import settings as table
from lbgen.model import LOG_FIELDS, Balancers, Logs, Metrics
from lbgen.problems import LbgenError
from lbgen.targets.registry import TARGETS, USUAL
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.fleet.build.context import Context
    from lbgen.model import TargetSettings


def balancers(context: Context, written: Any) -> Balancers:  # noqa: ANN401 - a number or a mapping
    """Return how many balancers there are, and where they reach each other."""
    if isinstance(written, int):
        return Balancers(written, {})
    values = usable(written, {})
    peers = {
        name: address for name, address in usable(values.get("peers"), {}).items() if address is not INVALID
    }
    count = usable(values.get("count"), len(peers) or 1)
    if peers and count != len(peers):
        message = f"'count' is {count}, and {len(peers)} peers are named"
        context.error(
            "balancers-mismatch", message, ("balancers", "count"), "leave 'count' out, or name all peers"
        )
    return Balancers(count, peers)


def metrics(written: Any) -> Metrics | None:  # noqa: ANN401 - a mapping, or nothing
    """Return the metrics listener; None without one."""
    binds = tuple(items(usable(written, {}), "bind"))
    if not binds:
        return None
    auth = usable(written.get("auth"), {})
    return Metrics(
        binds=binds,
        allow=tuple(items(written, "allow")),
        user=usable(auth.get("user"), None),
        password=usable(auth.get("password"), None),
        path=("metrics",),
    )


def logs(context: Context, written: Any) -> Logs:  # noqa: ANN401 - a mapping, or nothing
    """Return the access log."""
    values = table.LOGS.filled(usable(written, {}))
    fields = {name: source for name, source in usable(values["fields"], {}).items() if source is not INVALID}
    path = ("logs", "fields")
    if fields and values["format"] == "combined":
        message = "'fields' are those of a JSON line: what reads 'combined' knows its own alone"
        context.error("key-without-effect", message, path, "write 'format: json'", on_key=True)
    for name in LOG_FIELDS:
        if name in fields:
            message = f"each line has a field '{name}' already"
            context.error("duplicate-name", message, (*path, name), "choose another name", on_key=True)
    return Logs(**(values | {"fields": fields}))


def targets(
    written: Any,  # noqa: ANN401 - a mapping, or nothing
    requested: Sequence[str],
    versions: Mapping[str, str],
) -> tuple[TargetSettings, ...]:
    """Return the settings of the requested targets; else of those in the file; else of the usual ones."""
    values = usable(written, {})
    names = list(dict.fromkeys(requested)) or list(values) or list(USUAL)
    return tuple(_target(name, usable(values.get(name), {}), versions.get(name)) for name in names)


def _target(name: str, written: Mapping[str, Any], version: str | None) -> TargetSettings:
    if name not in TARGETS:
        raise LbgenError(f"there is no target '{name}': there are {', '.join(TARGETS)}")
    known = TARGETS[name].settings
    values = known.keys.filled(written)
    if version is not None:
        try:
            values["version"] = Version.parse(version)
        except ValueError as error:
            raise LbgenError(str(error)) from None
    raw = values["raw"] or {}
    values["raw"] = {level: tuple(items(raw, level)) for level in raw}
    lists = {key: tuple(items(values, key)) for key, value in values.items() if isinstance(value, list)}
    return known.make(name, values | lists)
