"""One machine with a balancer that lbgen deploys to, and load on it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import yaml

from lbgen.lab import load
from lbgen.lab.boxes import fetch
from lbgen.lab.owners import owner
from lbgen.lab.rig import LABEL, command_of, connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker.models.containers import Container

    from integration.fleets import Proxy

ROOT = Path(__file__).parent.parent
SIGNALS = {"nginx": "HUP", "haproxy": "USR2"}
MAIN = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}


class Site(NamedTuple):
    """The balancer's folder, and the mock servers behind it."""

    proxy: Proxy
    root: Path
    port: int
    servers: tuple[str, ...]
    name: str

    @property
    def folder(self) -> Path:
        return self.root / self.proxy.target

    @property
    def main(self) -> Path:
        return self.folder / MAIN[self.proxy.target]

    @property
    def run(self) -> Path:
        """Where pid files and sockets are."""
        return self.root / "run"

    @property
    def reload(self) -> str:
        return f"docker kill -s {SIGNALS[self.proxy.target]} {self.name}"

    def fleet(self, **pool: Any) -> dict[str, Any]:
        return {
            "pools": {"chat": {"engine": "vllm", "servers": list(self.servers), **pool}},
            "listeners": {"public": {"bind": f"127.0.0.1:{self.port}"}},
            "targets": {self.proxy.target: {"version": self.proxy.version}},
        }

    def write(self, fleet: dict[str, Any], name: str = "fleet") -> str:
        file = self.root / f"{name}.yaml"
        file.write_text(yaml.safe_dump(fleet))
        return str(file)

    def lbgen(self, command: str, fleet: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "lbgen", command, self.write(fleet), "--to", str(self.folder), *options],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def apply(self, fleet: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
        binary = f"{self.proxy.target}=docker://{self.proxy.image}"
        ways = {"--reload", "--pid", "--master-socket"}
        given = () if ways & set(options) else ("--reload", self.reload)
        return self.lbgen("apply", fleet, "--binary", binary, *given, *options)

    def runs(self) -> str:
        """Return the answer of the live probe, which names the files."""
        return fetch(f"http://127.0.0.1:{self.port}/lb/live").body.decode()

    def answers(self) -> bool:
        try:
            return bool(self.runs())
        except OSError:
            return False


@contextmanager
def balancer(site: Site) -> Iterator[Container]:
    """Run the balancer on this machine's own network, with the site's folder as its configuration."""
    site.run.mkdir()
    command = command_of(site.proxy.target)
    if site.proxy.target == "nginx":
        command[-1] = f"daemon off; pid {site.run}/pid;"
    else:
        command += ["-S", f"{site.run}/master.sock", "-p", f"{site.run}/pid"]
    container = connect().containers.run(
        site.proxy.image, command, entrypoint=[], name=site.name, detach=True, network_mode="host",
        pid_mode="host", labels={LABEL: owner(os.getpid())},
        volumes={
            str(site.folder): {"bind": f"/etc/{site.proxy.target}", "mode": "ro"},
            str(site.run): {"bind": str(site.run), "mode": "rw"},
        },
    )  # fmt: skip
    try:
        yield container
    finally:
        container.remove(force=True)


class Load:
    """Requests on fresh connections, all the time, until it is stopped."""

    def __init__(self, site: Site) -> None:
        self.results: list[load.Result] = []
        self._url = f"http://127.0.0.1:{site.port}"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        while not self._stop.is_set():
            planned = [load.Planned(number / 20, 30) for number in range(20)]
            self.results += await load.run(self._url, planned, most_late_s=5, fresh=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def failed(self) -> list[tuple[Any, Any]]:
        """Return what was not served; call it when the load has ended."""
        assert len(self.results) >= 20
        return [(result.status, result.error) for result in self.results if not result.ok]
