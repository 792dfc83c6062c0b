"""A runtime socket that answers as HAProxy's does, as far as the tests go."""

from __future__ import annotations

import socket
import threading
from itertools import pairwise
from pathlib import Path
from typing import Self

STATES = "be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight srv_agent_state srv_fqdn srv_port"  # noqa: E501 - HAProxy's own line
STATS = "pxname,svname,type,scur,qcur,rate,status,slim,check_status,check_code,last_chk,lastchg"


class Server:
    def __init__(self, **values: object) -> None:
        self.admin, self.weight, self.agent, self.in_flight, self.cap = 0, 1, 0, 0, ""
        self.check, self.address = "L7OK,200", ""
        self.__dict__ |= values
        self.initial = self.weight

    @property
    def status(self) -> str:
        return "MAINT" if self.admin & 1 else "DRAIN" if self.admin & 8 or not self.weight else "UP"


class FakeHaproxy:
    """Servers by ``pool/name``; `said` are the orders that it got. Each look lets a request end."""

    def __init__(self, path: Path, **servers: Server) -> None:
        self.path, self.servers, self.said, self.pid = path, servers, list[str](), 100
        self.refuses = ""
        """What it says to `add server` in place of doing it."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.sendall(self._answer(connection.recv(65_536).decode().strip()).encode() + b"\n")

    def _answer(self, line: str) -> str:
        if line == "show info":
            return f"Name: HAProxy\nVersion: 3.0.11\nPid: {self.pid}\nUptime_sec: 61\n"
        if line == "show stat":
            return "\n".join([f"# {STATS}", *(self._stat(name) for name in self.servers), ""])
        if line == "show servers state":
            return "\n".join(["1", f"# {STATES}", *(self._state(name) for name in self.servers), ""])
        self.said.append(line)
        return self._done(line.split())

    def _done(self, words: list[str]) -> str:
        if words[:2] == ["add", "server"]:
            return self.refuses or self._add(words)
        if words[:2] == ["del", "server"]:
            return self._delete(words[2].partition("/")[2])
        if words[:3] == ["set", "maxconn", "server"]:
            self.servers[words[3].partition("/")[2]].cap = words[4].removeprefix("0")
        if words[:2] in (["set", "server"], ["enable", "server"]):
            return self._set(self.servers[words[2].partition("/")[2]], words[3:] or ["state", "ready"])
        return ""

    def _set(self, server: Server, words: list[str]) -> str:
        if words[0] == "state":
            configured = server.admin & 4
            server.admin = configured | {"drain": 8, "maint": 1, "ready": 0}[words[1]]
        elif words[0] == "weight":
            server.weight = int(words[1])
        elif words[0] == "addr":
            server.address = f"{words[1]}:{words[3]}"
            return "IP changed"
        return ""

    def _add(self, words: list[str]) -> str:
        said = dict(pairwise(words))
        self.servers[words[2].partition("/")[2]] = Server(
            weight=int(said["weight"]), cap=said.get("maxconn", ""), address=words[3],
            admin=5 if "disabled" in words else 1,
        )  # fmt: skip
        return "New server registered."

    def _delete(self, name: str) -> str:
        if name not in self.servers:
            return "No such server."
        if not self.servers[name].admin & 1:
            return "Only servers in maintenance mode can be deleted."
        del self.servers[name]
        return "Server deleted."

    def _stat(self, name: str) -> str:
        server = self.servers[name]
        count, server.in_flight = server.in_flight, max(server.in_flight - 1, 0)
        return f"chat,{name},2,{count},0,3,{server.status},{server.cap},{server.check},,61"

    def _state(self, name: str) -> str:
        server = self.servers[name]
        weights = f"{server.weight} {server.initial}"
        address, _, port = server.address.rpartition(":")
        address = address or (name if name.startswith("10.") else "10.0.0.1")
        return f"3 chat 1 {name} {address} 2 {server.admin} {weights} {server.agent} - {port or 8000}"
