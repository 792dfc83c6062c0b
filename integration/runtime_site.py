"""A HAProxy with its runtime socket on this machine's own network, and load on it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import yaml

from integration.waiting import eventually
from lbgen.deploy.runtime.running import RunningServer, running
from lbgen.deploy.runtime.runtime_socket import RuntimeSocket
from lbgen.lab import load
from lbgen.lab.owners import owner
from lbgen.lab.rig import LABEL, command_of, connect
from lbgen.problems import LbgenError
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.fleets import Proxy
    from lbgen.lab.boxes import MockBox

ROOT = Path(__file__).parent.parent
SLOW = {"x-mock-pace": "0.1,0.1"}
"""A token each tenth of a second."""


class Runtime(NamedTuple):
    """One machine with a HAProxy, its folder, and the mock servers behind it."""

    proxy: Proxy
    root: Path
    port: int
    mocks: tuple[MockBox, ...]
    name: str

    @property
    def folder(self) -> Path:
        """Where its files are for us; HAProxy sees them in /etc/haproxy."""
        return self.root / "haproxy"

    @property
    def place(self) -> str:
        return f"{self.root}/admin.sock"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def servers(self, *numbers: int, **keys: Any) -> list[dict[str, Any]]:
        """Return entries of the fleet for some of the mocks, by number: the names are gpu-0 to gpu-3."""
        return [
            {"address": f"{self.mocks[number].address}:8000", "name": f"gpu-{number}", **keys}
            for number in numbers
        ]

    def fleet(self, *numbers: int, **pool: Any) -> dict[str, Any]:
        servers = self.servers(*(numbers or range(len(self.mocks))))
        return {
            "name": "site",
            "pools": {"chat": {"engine": "vllm", "servers": servers, **pool}},
            "listeners": {"public": {"bind": f"127.0.0.1:{self.port}"}},
            "targets": {"haproxy": {"version": self.proxy.version, "runtime_socket": self.place}},
        }

    def start(self, command: str, fleet: dict[str, Any], *words: str) -> subprocess.Popen[str]:
        file = self.root / f"fleet-{uuid.uuid4().hex[:6]}.yaml"
        file.write_text(yaml.safe_dump(fleet))
        return subprocess.Popen(
            [sys.executable, "-m", "lbgen", command, str(file), *words],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def lbgen(self, command: str, fleet: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
        process = self.start(command, fleet, *words)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def apply(self, fleet: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
        reload = f"docker kill -s USR2 {self.name}"
        binary = f"haproxy=docker://{self.proxy.image}"
        given = () if "--reload" in words else ("--reload", reload)
        return self.lbgen("apply", fleet, "--to", str(self.folder), "--binary", binary, *given, *words)

    def running(self) -> dict[str, RunningServer]:
        """Return the pool's servers by name."""
        return {name: server for (_, name), server in running(RuntimeSocket(self.place)).items()}

    def answers(self) -> bool:
        try:
            return bool(self.running())
        except LbgenError:
            return False


@contextmanager
def runtime(proxy: Proxy, mocks: list[MockBox], *numbers: int, **pool: Any) -> Iterator[Runtime]:
    """Run HAProxy with a fleet of some of the mocks (default: all); removed afterwards."""
    # The name of a socket is at most about 90 characters long, too short for pytest's own folders.
    root = Path(tempfile.mkdtemp(prefix="lbgen-", dir="/tmp"))
    made = Runtime(proxy, root, free_port(), tuple(mocks), f"lbgen-runtime-{uuid.uuid4().hex[:8]}")
    container = None
    try:
        done = made.lbgen("render", made.fleet(*numbers, **pool), "-o", str(root))
        assert done.returncode == 0, done.stderr
        container = connect().containers.run(
            proxy.image, command_of("haproxy"), entrypoint=[], name=made.name, detach=True,
            network_mode="host", labels={LABEL: owner(os.getpid())},
            volumes={
                str(made.folder): {"bind": "/etc/haproxy", "mode": "ro"},
                str(root): {"bind": str(root), "mode": "rw"},
            },
        )  # fmt: skip
        eventually(made.answers, 30, "HAProxy answers on its socket")
        yield made
    finally:
        if container is not None:
            container.remove(force=True)
        shutil.rmtree(root, ignore_errors=True)


class Load:
    """Streams on fresh connections, so many at once, until it is stopped."""

    def __init__(self, site: Runtime, *, parallel: int = 6, tokens: int = 10, **headers: str) -> None:
        self.results: list[load.Result] = []
        self._headers = SLOW | headers
        self._arguments = (site.url, parallel, tokens)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        url, parallel, tokens = self._arguments

        def planned() -> Iterator[load.Planned]:
            while not self._stop.is_set():
                yield load.Planned(0, tokens, headers=self._headers)

        self.results = await load.closed(url, planned(), parallel, fresh=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def lost(self) -> list[load.Result]:
        return [result for result in self.results if not result.ok]


def begun_after(mock: MockBox, instant: float) -> list[float]:
    """Return when requests reached a mock after an instant of this machine's monotonic clock."""
    return [request["begin"] for request in mock.requests() if request["begin"] > instant]


def now() -> float:
    return time.monotonic()
