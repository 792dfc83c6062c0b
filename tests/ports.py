"""Ports that stay free until the program that a test starts takes them."""

from __future__ import annotations

import socket

_kept: list[socket.socket] = []


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nobody else gets while this process lives.

    A bound socket that does not listen keeps it from all who let the kernel choose, and from outgoing
    connections; who names the port and sets SO_REUSEADDR, as every server here does, can listen on it.
    """
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind((host, 0))
    _kept.append(keeper)
    return int(keeper.getsockname()[1])
