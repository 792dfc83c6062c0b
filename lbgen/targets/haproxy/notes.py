"""What a configuration of HAProxy costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.bodies import buffer_size as body_size
from lbgen.targets.haproxy.buffers import buffer_size
from lbgen.targets.haproxy.settings import own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet

_BUFFERS = 2
"""Of a connection: one for what comes from the client, one for what comes from the server."""


def notes(fleet: Fleet) -> Iterator[str]:
    """Yield the memory that looking at bodies takes: all buffers have the size of the largest body."""
    if body_size(fleet) is None:
        return
    size = buffer_size(fleet)
    connections = own(fleet.target("haproxy")).max_connections
    total = _BUFFERS * size * connections
    yield (
        f"bodies are looked at: buffers take up to {total / 2**30:.1f} GiB of memory ({_BUFFERS} of"
        f" {size // 1024} KiB for each of {connections} connections); a smaller inspect.body or"
        " targets.haproxy.max_connections takes less"
    )
