"""One fleet on the three programs of this machine, in front of servers that remember what they were asked."""

from __future__ import annotations

import http.client
import json
import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from integration.envoy_site import MockServer, Seen, program
from integration.envoy_site import version as envoy_version
from integration.waiting import eventually
from lbgen.checker.programs import Choice, version_here
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render
from lbgen.secret_values import RealSecrets
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

TARGETS = ("nginx", "haproxy", "envoy")


class Reply(NamedTuple):
    """What a client got, and what the server saw if any did."""

    status: int
    headers: dict[str, str]
    body: bytes
    seen: Seen | None

    @property
    def code(self) -> str:
        """OpenAI's ``error.code``; empty where the answer is no error of the balancer."""
        try:
            return str(json.loads(self.body)["error"]["code"])
        except (ValueError, KeyError, TypeError):
            return ""

    def sent(self, name: str) -> str | None:
        """Return a request header as the server saw it."""
        assert self.seen is not None, self
        return self.seen.headers.get(name.lower())


class Site(NamedTuple):
    """A running program, its listeners' ports by name, and the servers behind it."""

    target: str
    ports: Mapping[str, int]
    servers: Mapping[str, MockServer]
    folder: Path
    process: int

    def ask(  # noqa: PLR0913, PLR0917 - the parts of a request
        self, port: str, path: str = "/", method: str = "GET", body: bytes | None = None,
        headers: Mapping[str, str] | tuple[tuple[str, str], ...] = (), host: str = "site.org",
    ) -> Reply:  # fmt: skip
        """Send one request, with headers in pairs where one of them comes twice."""
        before = {name: len(server.seen) for name, server in self.servers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[port], timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", host)
            for name, value in headers.items() if not isinstance(headers, tuple) else headers:
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            got = {name.lower(): value for name, value in answer.getheaders()}
            text = answer.read()
        finally:
            connection.close()
        seen = [one for name, server in self.servers.items() for one in server.seen[before[name] :]]
        return Reply(answer.status, got, text, seen[0] if seen else None)

    def lines(self, beginning: str) -> list[dict[str, Any]]:
        """Return the access log's lines of requests whose id begins so."""
        lines = (self.folder / "log").read_text().split("\n")[:-1]  # the last is not whole yet
        return [
            json.loads(line) for line in lines if f'"request_id":"{beginning}' in line.replace('": "', '":"')
        ]


@contextmanager
def running(
    target: str, fleet: Callable[[Mapping[str, int], Mapping[str, MockServer]], dict[str, Any]],
    names: tuple[tuple[str, ...], tuple[str, ...]], secrets: Mapping[str, str], folder: Path,
) -> Iterator[Site]:  # fmt: skip
    """Run a target's program with the fleet that is made of ports and servers of these names.

    The first port's listener has to serve the probes without TLS. Raises `LookupError` where the program is
    not installed.
    """
    version = envoy_version() if target == "envoy" else version_here(target, Choice())
    if version is None:
        raise LookupError(f"{target} is not installed here")
    with ExitStack() as stack:
        servers = {name: MockServer(name) for name in names[1]}
        for server in servers.values():
            stack.callback(server.close)
        ports = {name: free_port() for name in names[0]}
        settings = {"version": str(version), "directory": str(folder)}
        if target == "envoy":
            settings["admin"] = f"127.0.0.1:{free_port()}"
        whole = fleet(ports, servers)
        settings |= whole.get("targets", {}).get(target, {})
        text = json.dumps({**whole, "targets": {target: settings}})
        loaded = load([Source("fleet.yaml", text)], environ={}, targets=(target,))
        wrong = [str(problem) for problem in loaded.problems if problem.is_error]
        assert loaded.fleet is not None, wrong
        assert not wrong, wrong
        folder.mkdir(mode=0o755)
        for file in render(loaded.fleet, target, secrets=RealSecrets(secrets)):
            (folder / file.path).parent.mkdir(exist_ok=True, parents=True)
            (folder / file.path).write_text(file.text)
        log = stack.enter_context((folder / "log").open("w"))
        process = stack.enter_context(
            subprocess.Popen(command(target, folder), stdout=log, stderr=log, cwd=folder)
        )
        stack.callback(process.wait, 30)
        stack.callback(process.terminate)
        site = Site(target, ports, servers, folder, process.pid)
        eventually(lambda: process.poll() is not None or _live(site, names[0][0]), 120, f"{target} answers")
        assert process.poll() is None, (folder / "log").read_text()
        yield site


def command(target: str, folder: Path) -> list[str]:
    """Return how a target's program of this machine is started with the files of a folder."""
    return {
        "nginx": ["nginx", "-p", f"{folder}", "-c", f"{folder}/nginx.conf",
                  "-g", f"daemon off; pid {folder}/pid;"],
        "haproxy": ["haproxy", "-db", "-f", f"{folder}/haproxy.cfg"],
        "envoy": [program() if target == "envoy" else "", "-c", f"{folder}/envoy.yaml", "--concurrency", "1",
                  "--use-dynamic-base-id", "--log-level", "warning"],
    }[target]  # fmt: skip


def _live(site: Site, port: str) -> bool:
    try:
        return site.ask(port, "/lb/live").status == 200
    except OSError:
        return False
