"""A short name for what a fleet says: the same for the same fleet, however it is written."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.model import Fleet, Listener, Pool
    from lbgen.targets.spec import Target


def digest_of(fleet: Fleet, targets: Mapping[str, Any]) -> str:
    """Return twelve hexadecimal digits of the sha256 of a fleet.

    Comments, order of keys, ranges, overlays and defaults that are written down make no difference,
    nor does which of the targets is rendered: `targets` are the file's settings of all. Secrets go
    in by reference, so that nobody can try values against the digest.
    """
    settings = {
        name: said for name, target in TARGETS.items() if (said := _settings(target, targets.get(name)))
    }
    words = [
        repr((fleet.name, fleet.balancers._replace(own=None), fleet.metrics, fleet.logs)),
        *(word for pool in fleet.pools for word in _pool(pool)),
        *(word for listener in fleet.listeners for word in _listener(listener)),
        *(repr(client._replace(path=())) for client in fleet.clients),
        repr(settings),
    ]
    return hashlib.sha256("\n".join(words).encode(errors="backslashreplace")).hexdigest()[:12]


def _settings(target: Target, written: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what is written, but for the defaults: so a target that is new to lbgen changes no digest."""
    defaults = target.settings.keys.defaults
    filled = target.settings.keys.filled(written)
    return {key: value for key, value in filled.items() if value != defaults[key]}


def _pool(pool: Pool) -> Iterator[str]:
    yield repr(pool._replace(servers=(), path=()))
    for address, name, weight, cap, state, backup, _ in pool.servers:
        yield f"{address} {name} {weight} {cap} {state.value} {backup}"


def _listener(listener: Listener) -> Iterator[str]:
    yield repr(listener._replace(limits=(), routes=(), path=()))
    for limit in listener.limits:
        yield repr(limit._replace(path=()))
    for route in listener.routes:
        yield repr(route._replace(path=()))
