"""HAProxy's runtime socket: what can change without a reload, and what runs now."""

from __future__ import annotations

import csv
import io
import socket
from typing import TYPE_CHECKING

from lbgen.problems import LbgenError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.deploy.inventory import Inventory, ServerEntry

TIMEOUT_S = 10.0
STATES = {"up": "ready", "drain": "drain", "down": "maint"}
"""Ours, and HAProxy's."""


class RuntimeSocket:
    """One balancer's socket, at a path or at ``host:port``."""

    def __init__(self, place: str) -> None:
        self.place = place

    def ask(self, command: str) -> str:
        """Send one command and return the answer; raises `LbgenError` when nobody answers."""
        try:
            with self._connect() as connection:
                connection.settimeout(TIMEOUT_S)
                connection.sendall(command.encode() + b"\n")
                return b"".join(iter(lambda: connection.recv(65_536), b"")).decode("utf-8", "replace")
        except OSError as error:
            raise LbgenError(
                f"{self.place}: no answer on the runtime socket: {error.strerror or error}"
            ) from None

    def order(self, command: str) -> None:
        """Send a command that is silent when all is well; raises `LbgenError` with what it says otherwise."""
        answer = self.ask(command).strip()
        # 'set server … state' is silent; 'set server … addr' tells what it changed.
        if answer and not answer.startswith(("IP changed", "no need", "port changed", "nothing changed")):
            raise LbgenError(f"{self.place}: '{command}' was refused: {answer}")

    def stats(self) -> list[dict[str, str]]:
        """Return what runs now: a row for each frontend, backend and server."""
        text = self.ask("show stat").lstrip("# ")
        return list(csv.DictReader(io.StringIO(text)))

    def states(self) -> list[dict[str, str]]:
        """Return the servers' states: a row for each."""
        # The first line is the version of the format, the second one names the columns.
        lines = [line.split() for line in self.ask("show servers state").splitlines() if line.strip()]
        if len(lines) < 2 or lines[1][0] != "#":
            raise LbgenError(f"{self.place}: answers something else than HAProxy's runtime socket")
        return [dict(zip(lines[1][1:], line, strict=False)) for line in lines[2:]]

    def info(self) -> dict[str, str]:
        """Return what the process says of itself: ``Version``, ``Pid``, ``Uptime_sec`` and more."""
        lines = (line.partition(": ") for line in self.ask("show info").splitlines())
        return {name: value for name, colon, value in lines if colon}

    def _connect(self) -> socket.socket:
        host, colon, port = self.place.rpartition(":")
        if colon and port.isdecimal() and "/" not in self.place:
            return socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(TIMEOUT_S)
            connection.connect(self.place)
        except OSError:
            connection.close()
            raise
        return connection


def commands(old: Inventory, new: Inventory) -> Iterator[str]:
    """Yield the commands that take the running balancer from one configuration to the other.

    Covers what `words.steps` says needs no reload: weight, state, cap and address.
    """
    for name, pool in new.pools.items():
        before = old.pools[name].servers if name in old.pools else {}
        for server, entry in pool.servers.items():
            if server in before and before[server] != entry:
                yield from _server(f"{name}/{server}", before[server], entry)


def _server(name: str, old: ServerEntry, new: ServerEntry) -> Iterator[str]:
    if old.address != new.address:
        host, _, port = new.address.rpartition(":")
        yield f"set server {name} addr {host.strip('[]')} port {port}"
    if old.cap != new.cap:
        yield f"set maxconn server {name} {new.cap or 0}"
    if old.weight != new.weight:
        yield f"set server {name} weight {new.weight}"
    if old.state != new.state and "down" in {old.state, new.state}:
        yield f"set server {name} state {STATES[new.state]}"
