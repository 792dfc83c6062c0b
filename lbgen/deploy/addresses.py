"""Addresses that a new configuration binds and another program holds, seen before the reload.

No check of NGINX or HAProxy tells (``nginx -t`` passes over what is in use, ``haproxy -c`` binds
nothing), and a reload that meets one is no harmless failure: HAProxy stops listening with the old
process, too, while it tries again, for 2 to 2.6 seconds (seen on 2.6, 3.0 and 3.2).
"""

from __future__ import annotations

import errno
import re
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_BIND = re.compile(
    r"^\s*(?:bind|listen) (?:(\d+\.\d+\.\d+\.\d+):|\[([0-9a-fA-F:]+)\]:)?(\d+)\b", re.MULTILINE
)


def taken_addresses(old: str, new: str) -> list[str]:
    """Return the addresses that the new text binds beyond those of the old one, and that are in use here."""
    before = set(_addresses(old))
    return [
        f"{host}:{port}" for host, port in dict.fromkeys(_addresses(new)) if _is_taken(before, host, port)
    ]


def _addresses(text: str) -> Iterator[tuple[str, int]]:
    for four, six, port in _BIND.findall(text):
        yield (f"[{six}]" if six else four or "0.0.0.0", int(port))  # noqa: S104 - what the file says


def _is_taken(before: set[tuple[str, int]], host: str, port: int) -> bool:
    if (host, port) in before or port in {number for _, number in before}:
        return False  # the running balancer may hold it under another host
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            probe.bind((host.strip("[]"), port))
            probe.listen()
        except OSError as error:
            return error.errno == errno.EADDRINUSE  # not ours or not allowed: others may judge
    return False
