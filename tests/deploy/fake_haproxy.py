"""A runtime socket that answers as HAProxy's does, as far as the tests go."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Self

STATES = "be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight srv_agent_state srv_fqdn srv_port"  # noqa: E501 - HAProxy's own line
STATS = "pxname,svname,type,scur,qcur,rate,status,slim,check_status,check_code,last_chk,lastchg"


class Server:
    def __init__(self, **values: object) -> None:
        self.admin, self.weight, self.agent, self.in_flight, self.cap = 0, 1, 0, 0, ""
        self.check = "L7OK,200"
        self.__dict__ |= values

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
        words = line.split()
        if line == "show info":
            return f"Name: HAProxy\nVersion: 3.0.11\nPid: {self.pid}\nUptime_sec: 61\n"
        if line == "show stat":
            return "\n".join([f"# {STATS}", *(self._stat(name) for name in self.servers), ""])
        if line == "show servers state":
            return "\n".join(["1", f"# {STATES}", *(self._state(name) for name in self.servers), ""])
        self.said.append(line)
        if words[:2] == ["add", "server"]:
            return self.refuses or self._add(words)
        if words[:2] == ["set", "server"] and words[3] == "state":
            self.servers[words[2].partition("/")[2]].admin = {"drain": 8, "maint": 1, "ready": 0}[words[4]]
        return ""

    def _add(self, words: list[str]) -> str:
        self.servers[words[2].partition("/")[2]] = Server(weight=int(words[words.index("weight") + 1]))
        return "New server registered."

    def _stat(self, name: str) -> str:
        server = self.servers[name]
        count, server.in_flight = server.in_flight, max(server.in_flight - 1, 0)
        return f"chat,{name},2,{count},0,3,{server.status},{server.cap},{server.check},,61"

    def _state(self, name: str) -> str:
        server = self.servers[name]
        weights = f"{server.weight} {server.weight}"
        address = name if name.startswith("10.") else "10.0.0.1"
        return f"3 chat 1 {name} {address} 2 {server.admin} {weights} {server.agent} - 8000"
