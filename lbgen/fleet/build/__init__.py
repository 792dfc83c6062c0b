"""From the values of a checked fleet file to a `Fleet`, with every default filled in."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.fields import INVALID
from lbgen.fleet.build.context import Context, usable
from lbgen.fleet.build.listeners import client, listener
from lbgen.fleet.build.pools import pool
from lbgen.fleet.build.settings import balancers, logs, metrics, targets
from lbgen.fleet.kinds import NAME_PATTERN
from lbgen.fleet.written.digest import digest_of
from lbgen.model import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lbgen.fleet.build.context import Origin
    from lbgen.problems import Problem


class Built(NamedTuple):
    """A fleet, and what is wrong with it.

    Where values were refused, or there are errors, the fleet is what can be made of the rest:
    good enough to look for further problems, not to be rendered.
    """

    fleet: Fleet
    problems: tuple[Problem, ...]
    """With paths, without locations."""


def build(
    values: Any,  # noqa: ANN401 - what the field table read; INVALID where it is no mapping
    document: Origin,
    requested: Sequence[str] = (),
    versions: Mapping[str, str] | None = None,
) -> Built:
    """Return the fleet that the values of a document describe.

    `requested`: names of the targets to render for, in place of those in the file.
    `versions`: versions of targets, in place of those in the file.
    Raises `LbgenError` for a target or a version that does not exist.
    """
    values = usable(values, {})
    context = Context(values, document)
    pools = tuple(pool(context, name, written) for name, written in _mappings(values, "pools"))
    clients = tuple(client(context, name, written) for name, written in _mappings(values, "clients"))
    listeners = dict(_mappings(values, "listeners"))
    if "listeners" not in values:
        listeners = {"default": {}}
    for_acme = _for_acme(listeners)
    routable = [made for made in pools if not made.standby and made.name not in for_acme]
    fleet = Fleet(
        name=usable(values.get("name"), None) or _stem(document),
        balancers=balancers(context, values.get("balancers")),
        pools=pools,
        listeners=tuple(
            listener(context, name, written, routable, clients) for name, written in listeners.items()
        ),
        clients=clients,
        metrics=metrics(values.get("metrics")),
        logs=logs(context, values.get("logs")),
        targets=targets(values.get("targets"), requested, versions or {}),
        digest="",
        origins=document,
    )
    fleet = fleet._replace(digest=digest_of(fleet, usable(values.get("targets"), {})))
    return Built(fleet, tuple(context.problems))


def _mappings(values: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the named mappings below a key; those that were refused count as empty nowhere."""
    for name, written in usable(values.get(key), {}).items():
        if written is not INVALID:
            yield name, written


def _for_acme(listeners: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the names of the pools that answer ACME challenges, which need no route."""
    return {usable(written.get("acme"), {}).get("pool") for written in listeners.values()} - {None}


def _stem(document: Origin) -> str:
    """Return the file name without its extension, if that can be a name."""
    stem = PurePath(document.root.start_mark.name).stem
    return stem if re.fullmatch(NAME_PATTERN, stem) else "fleet"
