"""How large HAProxy's buffers have to be: one size for the process, whatever of it needs most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.inspection.bodies import buffer_size as body_size

if TYPE_CHECKING:
    from lbgen.model import Fleet

REWRITE = 4_096
"""Bytes kept free for headers that rules add; HAProxy's own `tune.maxrewrite` is 1024."""
_UNPACKED = 4_096
"""Bytes that headers grow by when they are taken apart: 8 for each of at most 101 (2.6.12), and the line."""


def buffer_size(fleet: Fleet) -> int:
    """Return the bytes of a buffer: it holds the headers of one direction, and what is inspected."""
    headers = [listener.header_size for listener in fleet.listeners]
    headers += [pool.header_size for pool in fleet.pools]
    # Twice, since what does not fit is told as a malformed request, and what fits as too large.
    return 2 * max(headers, default=0) + _UNPACKED + REWRITE + (body_size(fleet) or 0)
