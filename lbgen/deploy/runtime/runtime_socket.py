"""HAProxy's runtime socket: what can change without a reload, and what runs now."""

from __future__ import annotations

import csv
import io
import socket
import time
from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import LbgenError, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lbgen.targets.inventory import Inventory, ServerEntry

TIMEOUT_S = 10.0
"""For connecting, and between two parts of an answer."""
ANSWER_S = 60.0
MOST_BYTES = 256 * 2**20
"""For a whole answer: `show stat` has about 300 bytes a server, so 30 MB for 100,000 of them."""
_STATS = ("pxname", "svname", "type", "status", "scur", "qcur", "rate")
_STATE_WORDS = ("be_name", "srv_name", "srv_addr", "srv_fqdn", "srv_port")
_STATE_NUMBERS = ("srv_admin_state", "srv_agent_state", "srv_uweight", "srv_iweight")
"""What is read of `show stat` and `show servers state`; 2.6 to 3.2 tell all of it."""


class Info(NamedTuple):
    """What a process says of itself."""

    version: str
    pid: str
    uptime_s: int


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
                return printable(b"".join(self._parts(connection)).decode("utf-8", "replace"))
        except OSError as error:
            raise LbgenError(
                f"{self.place}: no answer on the runtime socket: {error.strerror or error}"
            ) from None

    def _parts(self, connection: socket.socket) -> Iterator[bytes]:
        """Yield an answer's parts; raises `LbgenError` when it does not end."""
        end, size = time.monotonic() + ANSWER_S, 0
        while part := connection.recv(65_536):
            yield part
            size += len(part)
            left = end - time.monotonic()
            if left <= 0 or size > MOST_BYTES:
                raise LbgenError(
                    f"{self.place}: the response on the runtime socket does not end: {size} bytes after"
                    f" {ANSWER_S - left:.0f} s"
                )
            connection.settimeout(min(TIMEOUT_S, left))

    def order(self, command: str) -> None:
        """Send a command that is silent when all is well; raises `LbgenError` with what it says otherwise."""
        answer = self.ask(command).strip()
        # 'set server … state' is silent; 'set server … addr' tells what it changed.
        if answer and not answer.startswith(("IP changed", "no need", "port changed", "nothing changed")):
            raise LbgenError(f"{self.place}: '{command}' was refused: {answer}")

    def stats(self) -> list[dict[str, str]]:
        """Return what runs now: a row for each frontend, backend and server; raises `LbgenError`."""
        text = self.ask("show stat").lstrip("# ")
        try:
            rows = list(csv.DictReader(io.StringIO(text)))
        except csv.Error:
            raise self._somebody_else() from None
        if not rows or not _have(rows, _STATS):
            raise self._somebody_else()
        return rows

    def states(self) -> list[dict[str, str]]:
        """Return the servers' states: a row for each; raises `LbgenError`."""
        # The first line is the version of the format, the second one names the columns.
        lines = [line.split() for line in self.ask("show servers state").splitlines() if line.strip()]
        if len(lines) < 2 or lines[1][0] != "#":
            raise self._somebody_else()
        rows = [dict(zip(lines[1][1:], line, strict=False)) for line in lines[2:]]
        if not _have(rows, _STATE_WORDS, _STATE_NUMBERS):
            raise self._somebody_else()
        return rows

    def info(self) -> Info:
        """Return what the process says of itself; raises `LbgenError`."""
        lines = (line.partition(": ") for line in self.ask("show info").splitlines())
        said = {name: value for name, colon, value in lines if colon}
        if not _have([said], ("Version", "Pid"), ("Uptime_sec",)):
            raise self._somebody_else()
        return Info(said["Version"], said["Pid"], int(said["Uptime_sec"]))

    def _somebody_else(self) -> LbgenError:
        return LbgenError(f"{self.place}: not HAProxy's runtime socket")

    def _connect(self) -> socket.socket:
        host, colon, port = self.place.rpartition(":")
        if colon and port.isdecimal() and "/" not in self.place:
            return self._connect_to(host.strip("[]"), port)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(TIMEOUT_S)
            connection.connect(self.place)
        except OSError:
            connection.close()
            raise
        return connection

    def _connect_to(self, host: str, port: str) -> socket.socket:
        if len(port) > 5 or int(port) > 65_535:
            raise LbgenError(f"{self.place}: {port} is not a port: the highest is 65535")
        try:
            return socket.create_connection((host, int(port)), TIMEOUT_S)
        except UnicodeError:  # an empty label, or one of more than 63 letters
            raise LbgenError(f"{self.place}: '{host}' is not a host name") from None


def number(text: str | None) -> int | None:
    """Return one of HAProxy's counts; None for anything else, such as an empty column."""
    return int(text) if text and text.isdecimal() and len(text) <= 20 else None


def _have(rows: Iterable[Mapping[str, str]], words: Iterable[str], numbers: Iterable[str] = ()) -> bool:
    """Tell whether every row has these columns; one that was cut off in the middle has not."""
    words, numbers = tuple(words), tuple(numbers)
    return all(
        all(row.get(name) is not None for name in words)
        and all(number(row.get(name)) is not None for name in numbers)
        for row in rows
    )


def commands(old: Inventory, new: Inventory) -> Iterator[str]:
    """Yield the commands that take the running balancer from one configuration to the other.

    Covers what `inventory_diff.file_changes` says needs no reload: weight, state, cap and address.
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
        # Weight 0 is all of a file's drain: HAProxy's own would outlast the weight (2.6 to 3.2).
        yield f"set server {name} state {'maint' if new.state == 'down' else 'ready'}"
