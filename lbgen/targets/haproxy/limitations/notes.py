"""What a configuration of HAProxy costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.inspection.bodies import buffer_size as body_size
from lbgen.targets.haproxy.inspection.buffers import buffer_size
from lbgen.targets.haproxy.settings import own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet

_BUFFERS = 2
"""Of a connection: one for what comes from the client, one for what comes from the server."""


def notes(fleet: Fleet) -> Iterator[str]:
    """Yield the memory that looking at bodies takes: all buffers have the size of the largest body.

    Only where somebody chose the size or the number of connections: a connection has buffers while a request
    or an answer passes, so that the product of the defaults is a bound that no ordinary fleet comes near.
    """
    written, settings = fleet.origins.written, fleet.target("haproxy")
    chosen = written((*settings.path, "max_connections")) or any(
        written((*listener.path, "inspect", "body")) for listener in fleet.listeners
    )
    if body_size(fleet) is None or not chosen:
        return
    size = buffer_size(fleet)
    connections = own(settings).max_connections
    total = _BUFFERS * size * connections
    yield (
        f"buffers take up to {total / 2**30:.1f} GiB of memory if all {connections} connections send bodies"
        f" at once ({_BUFFERS} buffers of {size // 1024} KiB each); inspect.body and"
        " targets.haproxy.max_connections set the limits"
    )
