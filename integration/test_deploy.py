"""From one fleet to the next on a running balancer, under load: nobody notices, and what is bad goes back."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pytest
import yaml

from integration.waiting import eventually
from lbgen.lab import load
from lbgen.lab.rig import COMMANDS, LABEL, connect, owner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker.models.containers import Container

    from integration.fleets import Proxy

ROOT = Path(__file__).parent.parent
SIGNALS = {"nginx": "HUP", "haproxy": "USR2"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Site(NamedTuple):
    """One machine with a balancer: its folder, and the mock servers behind it."""

    proxy: Proxy
    folder: Path
    port: int
    servers: tuple[str, ...]
    name: str

    def fleet(self, **changes: Any) -> dict[str, Any]:
        pool = {"engine": "vllm", "servers": list(self.servers), **changes}
        return {
            "pools": {"chat": pool},
            "listeners": {"public": {"bind": f"127.0.0.1:{self.port}"}},
            "targets": {self.proxy.target: {"version": self.proxy.version}},
        }

    def lbgen(self, command: str, fleet: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
        file = self.folder.parent / "fleet.yaml"
        file.write_text(yaml.safe_dump(fleet))
        return subprocess.run(
            [sys.executable, "-m", "lbgen", command, str(file), "--to", str(self.folder), *options],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def apply(self, fleet: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
        reload = f"docker kill -s {SIGNALS[self.proxy.target]} {self.name}"
        binary = f"{self.proxy.target}=docker://{self.proxy.image}"
        given = () if "--reload" in options else ("--reload", reload)
        return self.lbgen("apply", fleet, "--binary", binary, *given, *options)

    @property
    def main(self) -> Path:
        return self.folder / ("nginx.conf" if self.proxy.target == "nginx" else "haproxy.cfg")


@contextmanager
def balancer(site: Site) -> Iterator[Container]:
    """Run the balancer on this machine's own network, with the site's folder as its configuration."""
    container = connect().containers.run(
        site.proxy.image, COMMANDS[site.proxy.target], entrypoint=[], name=site.name, detach=True,
        network_mode="host", labels={LABEL: owner(os.getpid())},
        volumes={str(site.folder): {"bind": f"/etc/{site.proxy.target}", "mode": "ro"}},
    )  # fmt: skip
    try:
        yield container
    finally:
        container.remove(force=True)


@pytest.fixture
def site(proxy: Proxy, mocks: list[Any], tmp_path: Path) -> Iterator[Site]:
    """A balancer that runs the first version of a fleet."""
    servers = tuple(f"{mock.address}:8000" for mock in mocks)
    folder = tmp_path / proxy.target
    made = Site(proxy, folder, free_port(), servers, f"lbgen-deploy-{uuid.uuid4().hex[:8]}")
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump(made.fleet()))
    done = subprocess.run(
        [sys.executable, "-m", "lbgen", "render", str(tmp_path / "fleet.yaml"), "-o", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with balancer(made):
        eventually(lambda: load_ok(made), 30, "the balancer answers")
        yield made


def load_ok(site: Site) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", site.port), 1):
            return True
    except OSError:
        return False


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


def test_from_fleet_to_fleet_under_load(site: Site) -> None:
    v1, v2 = site.fleet(), site.fleet(strategy="round_robin", servers=list(site.servers[:3]))
    broken = site.fleet() | {
        "targets": {site.proxy.target: {"version": site.proxy.version, "raw": RAW[site.proxy.target]}}
    }
    v4 = site.fleet(strategy="random_two")
    with Load(site) as running:
        plan = site.lbgen("plan", v2, "--format", "json")
        digest = json.loads(plan.stdout)["digest"]
        done = site.apply(v2, "--expect", digest)
        assert done.returncode == 0, done.stderr
        second = site.main.read_bytes()

        refused = site.apply(broken)
        assert refused.returncode == 1, refused.stderr
        assert "refuses the candidate" in refused.stderr
        assert site.main.read_bytes() == second

        failed = site.apply(v4, "--reload", "false")
        assert failed.returncode == 2, failed.stderr
        assert "rolled back" in failed.stderr
        assert site.main.read_bytes() == second

        assert site.apply(v1).returncode == 0
        assert site.apply(v2).returncode == 0
        assert site.main.read_bytes() == second
    bad = [(result.status, result.error) for result in running.results if not result.ok]
    assert not bad
    assert len(running.results) >= 20


RAW = {"nginx": {"http": ["no_such_directive on;"]}, "haproxy": {"global": ["no-such-keyword"]}}


def test_what_is_refused_touches_nothing(site: Site) -> None:
    before = site.main.read_bytes()
    emptied = site.apply(site.fleet(servers=list(site.servers[:1])))
    assert emptied.returncode == 1
    assert "would lose 3 of 4 servers" in emptied.stderr
    stale = site.apply(site.fleet(strategy="round_robin"), "--expect", "0" * 16)
    assert stale.returncode == 1
    assert site.main.read_bytes() == before

    site.main.write_text("# by hand\n")
    foreign = site.apply(site.fleet(strategy="round_robin"))
    assert foreign.returncode == 1
    assert "not written by lbgen" in foreign.stderr
    assert site.main.read_text() == "# by hand\n"


def test_nothing_to_do_reloads_nothing(site: Site) -> None:
    done = site.apply(site.fleet(), "--reload", "false")
    assert done.returncode == 0, done.stderr
    assert "no changes" in done.stdout
