"""What looking into bodies costs a balancer: milliseconds of CPU for each MiB, by kind of body.

``python benchmarks/body_cost.py`` renders a fleet whose pools are chosen by model and by prefix, starts NGINX
and HAProxy (or ``-t envoy``) as they are installed here, or in images (``-t nginx:1.30=IMAGE``), and sends
each kind in turn. What forwarding the same bytes without a look takes is measured in the same way and taken
off. Prints Markdown.
"""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import click
import yaml

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from integration.bodies import HOSTILE, ORDINARY  # noqa: E402 - runs also as a file
from lbgen.fleet.load import load  # noqa: E402
from lbgen.fleet.text.source import Source  # noqa: E402
from lbgen.render import render  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1024**2
LOOKING, BLIND, ADMIN = "looking", "blind", "admin"
COMMANDS = {
    "nginx": ["nginx", "-g", "daemon off;", "-c"],
    "haproxy": ["haproxy", "-f"],
    "envoy": ["envoy", "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "error", "-c"],
}
MAIN = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg", "envoy": "envoy.yaml"}


class Sink(BaseHTTPRequestHandler):
    """A server that reads what it is sent and says nothing."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        left = int(self.headers["Content-Length"])
        while left:
            left -= len(self.rfile.read(min(left, 65_536)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def handle(self) -> None:
        """Heed no connection that a balancer drops when it ends."""
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on at the moment."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Sink) for _ in range(count)]
    ports = [server.server_address[1] for server in servers]
    for server in servers:
        server.server_close()
    return ports


def fleet(sink: int, ports: dict[str, int], folder: Path) -> dict[str, object]:
    """Return a fleet with a listener that looks into bodies and one that does not."""
    server = f"127.0.0.1:{sink}"
    prefix = {"engine": "http", "servers": [server], "strategy": "prefix"}
    routes = [{"model": ["m"], "pool": "m"}, {"name": "rest", "pool": "rest"}]
    looking = {"bind": f"127.0.0.1:{ports[LOOKING]}", "inspect": {"body": "2MiB"}, "routes": routes}
    blind = {"bind": f"127.0.0.1:{ports[BLIND]}", "routes": [{"pool": "plain"}]}
    return {
        "pools": {"m": prefix, "rest": prefix, "plain": {"engine": "http", "servers": [server]}},
        "listeners": {LOOKING: looking, BLIND: blind},
        "logs": {"to": "stdout"},
        "targets": {
            "nginx": {"workers": 1, "connections": 64, "directory": str(folder)},
            "haproxy": {"threads": 1, "max_connections": 100, "directory": str(folder)},
            "envoy": {"workers": 1, "admin": f"127.0.0.1:{ports[ADMIN]}", "directory": str(folder)},
        },
    }


class Program(NamedTuple):
    """A balancer that is measured."""

    target: str
    version: str = ""
    image: str = ""
    """Empty: as it is installed here."""

    @classmethod
    def parse(cls, text: str) -> Program:
        """Read ``haproxy``, or ``haproxy:3.2=IMAGE``."""
        name, _, image = text.partition("=")
        target, _, version = name.partition(":")
        if target not in COMMANDS or bool(version) != bool(image):
            raise click.BadParameter(f"{text} is neither a target nor TARGET:VERSION=IMAGE")
        return cls(target, version, image)

    def __str__(self) -> str:
        return f"{self.target} {self.version}".strip()


@contextmanager
def started(program: Program, main: str) -> Iterator[int]:
    """Start a program by its main file; yields its process."""
    command = [*COMMANDS[program.target], main]
    if program.image:
        folder = str(Path(main).parent)
        run = ["docker", "run", "--detach", "--rm", "--network=host", f"--volume={folder}:{folder}"]
        container = subprocess.check_output([*run, program.image, *command], text=True).strip()
        try:
            ask = ["docker", "inspect", "--format={{.State.Pid}}", container]
            yield int(subprocess.check_output(ask))
        finally:
            subprocess.run(["docker", "rm", "--force", container], check=True, stdout=subprocess.DEVNULL)
        return
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


@contextmanager
def running(program: Program, sink: int, ports: dict[str, int]) -> Iterator[int]:
    """Render and start a balancer; yields its process."""
    target = program.target
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = Source("fleet.yaml", yaml.safe_dump(fleet(sink, ports, folder)))
        versions = {target: program.version} if program.version else {}
        loaded = load([source], environ={}, targets=(target,), versions=versions)
        if loaded.fleet is None:
            raise click.ClickException("\n".join(problem.message for problem in loaded.problems))
        for file in render(loaded.fleet, target):
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text, encoding="utf-8")
        with started(program, str(folder / MAIN[target])) as process:
            for listener in (LOOKING, BLIND):
                wait_for(ports[listener])
            yield process


def wait_for(port: int) -> None:
    """Return when somebody listens on a port; raises `ClickException` after a minute without."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return
        time.sleep(0.05)
    raise click.ClickException(f"nobody listens on port {port}")


def cpu_ms(process: int) -> float:
    """Return the milliseconds of CPU that a process and its children have used."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    total = 0
    for pid in (process, *map(int, children)):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names alone
            total += int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text(encoding="ascii").split()[0])
    return total / 1e6


def cost_ms(process: int, port: int, body: bytes, rounds: int) -> float:
    """Return the median of the milliseconds of CPU that one request took."""
    taken = []
    for _ in range(rounds):
        before = cpu_ms(process)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/v1/x", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
        connection.close()
        taken.append(cpu_ms(process) - before)
    return median(taken)


def costs(program: Program, rounds: int) -> Iterator[tuple[str, float]]:
    """Yield each kind of body, and what a look at it costs: milliseconds of CPU a MiB."""
    sink = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=sink.serve_forever, daemon=True).start()
    ports = dict(zip((LOOKING, BLIND, ADMIN), free_ports(3), strict=True))
    with running(program, sink.server_address[1], ports) as process:
        for kind, make in {**ORDINARY, **HOSTILE}.items():
            body = make(MIB)
            looking, blind = (cost_ms(process, ports[name], body, rounds) for name in (LOOKING, BLIND))
            yield kind, (looking - blind) * MIB / len(body)
    sink.shutdown()


@click.command()
@click.option(
    "-t", "--target", "targets", multiple=True, default=("haproxy", "nginx"), metavar="TARGET[:VERSION=IMAGE]"
)
@click.option("--rounds", default=7, show_default=True, help="Requests of each kind; the median counts.")
def main(targets: tuple[str, ...], rounds: int) -> None:
    """Print the table."""
    programs = [Program.parse(target) for target in targets]
    found = [dict(costs(program, rounds)) for program in programs]
    click.echo(f"| body | {' | '.join(map(str, programs))} |\n|---|{'---|' * len(programs)}")
    for kind in found[0]:
        click.echo(f"| {kind} | {' | '.join(f'{max(one[kind], 0):.1f}' for one in found)} |")


if __name__ == "__main__":
    main()
