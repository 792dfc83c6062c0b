"""A real Prometheus with the rendered files, beside a balancer under load: alerts, and each query."""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
import yaml

from integration.conftest import renewed
from integration.fleets import BETWEEN, ONE_EACH, Proxy
from integration.waiting import eventually
from lbgen.lab import load
from lbgen.lab.boxes import fetch
from lbgen.lab.owners import owner
from lbgen.lab.rig import LABEL, command_of, connect
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.lab.boxes import MockBox

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PROGRAMS = ("prometheus", "prometheus-blackbox-exporter", "openssl")
PARALLEL = 10
"""Requests at once, of which each server computes two and the others wait."""


def fleet_of(proxy: Proxy, mocks: list[MockBox], root: Path, ports: list[int]) -> dict[str, Any]:
    """Return a fleet of four servers, one of them drained, with a certificate that ends in five days."""
    servers = [
        {
            "address": f"{mock.address}:8000",
            "name": f"gpu-{number}",
            "state": "drain" if number == 3 else "up",
        }
        for number, mock in enumerate(mocks)
    ]
    pool = {"engine": "vllm", "servers": servers, "max_in_flight": 4}
    if proxy.target == "haproxy":
        pool["strategy"] = "prefix"
        pool["health"] = {"interval": "1s", "timeout": "1s", "fall": 2}
    edge = {"bind": f"127.0.0.1:{ports[1]}", "tls": {"bundle": f"{root}/edge.pem"}, "auth": "none"}
    return {
        "name": "site",
        "pools": {"chat": pool},
        "listeners": {"public": {"bind": f"127.0.0.1:{ports[0]}"}, "edge": edge},
        "metrics": {"bind": f"127.0.0.1:{ports[2]}"},
        "targets": {proxy.target: {"version": proxy.version}},
    }


class Site:
    """Where everything is."""

    def __init__(self, proxy: Proxy, mocks: list[MockBox], root: Path) -> None:
        self.proxy, self.root = proxy, root
        self.ports = [free_port() for _ in range(5)]
        (root / "fleet.yaml").write_text(yaml.safe_dump(fleet_of(proxy, mocks, root, self.ports)))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "5", "-subj", "/CN=edge",
             "-keyout", "key.pem", "-out", "edge.pem"],
            cwd=root, check=True, capture_output=True,
        )  # fmt: skip
        with (root / "edge.pem").open("a") as stream:
            stream.write((root / "key.pem").read_text())
        (root / "edge.pem").chmod(0o644)
        for form in ("files", "prometheus", "grafana"):
            command = [sys.executable, "-m", "lbgen", "render", f"{root}/fleet.yaml", "--as", form]
            done = subprocess.run(
                [*command, "-o", str(root)], cwd=ROOT, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr

    @property
    def files(self) -> Path:
        return self.root / self.proxy.target

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    def answers(self, url: str) -> bool:
        try:
            return fetch(url, timeout_s=2).status == 200
        except OSError:
            return False

    def asked(self, page: str, **words: str) -> Any:
        """Return what Prometheus answers."""
        url = f"http://127.0.0.1:{self.ports[3]}/api/v1/{page}?{urlencode(words)}"
        return json.loads(fetch(url, timeout_s=5).body)["data"]

    def values(self, query: str) -> dict[str, float]:
        """Return the values of a query that are numbers, by their labels."""
        found = self.asked("query", query=query)["result"]
        values = {json.dumps(one["metric"], sort_keys=True): float(one["value"][1]) for one in found}
        return {name: value for name, value in values.items() if math.isfinite(value)}

    def alerts(self) -> list[tuple[str, str, str]]:
        """Return the name, the state and the server of each alert."""
        return [
            (one["labels"]["alertname"], one["state"], one["labels"].get("server", ""))
            for one in self.asked("alerts")["alerts"]
        ]


@contextmanager
def balancer(site: Site) -> Iterator[None]:
    container = connect().containers.run(
        site.proxy.image, command_of(site.proxy.target), entrypoint=[], detach=True,
        name=f"lbgen-watched-{uuid.uuid4().hex[:8]}", network_mode="host", labels={LABEL: owner(os.getpid())},
        volumes={
            str(site.files): {"bind": f"/etc/{site.proxy.target}", "mode": "ro"},
            str(site.root): {"bind": str(site.root), "mode": "ro"},
        },
    )  # fmt: skip
    try:
        eventually(lambda: site.answers(f"{site.url}/lb/ready"), 30, "the balancer is ready")
        yield
    finally:
        container.remove(force=True)


@contextmanager
def running(site: Site, *command: str) -> Iterator[None]:
    with (site.root / f"{command[0]}.log").open("w") as log:
        process = subprocess.Popen(command, cwd=site.root, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


@contextmanager
def prometheus(site: Site) -> Iterator[None]:
    """Run Prometheus and the exporter for certificates with the rendered files."""
    folder = site.files / "prometheus"
    config = folder / "prometheus.yml"
    # The exporter's usual port may be another test's.
    config.write_text(config.read_text().replace("127.0.0.1:9115", f"127.0.0.1:{site.ports[4]}"))
    page = f"http://127.0.0.1:{site.ports[3]}/-/ready"
    with (
        running(
            site, "prometheus-blackbox-exporter", f"--config.file={folder}/blackbox.yml",
            f"--web.listen-address=127.0.0.1:{site.ports[4]}",
        ),
        running(
            site, "prometheus", f"--config.file={config}", f"--storage.tsdb.path={site.root}/data",
            f"--web.listen-address=127.0.0.1:{site.ports[3]}",
        ),
    ):  # fmt: skip
        eventually(lambda: site.answers(page), 30, "Prometheus is ready")
        yield


@contextmanager
def under_load(site: Site) -> Iterator[None]:
    stop = threading.Event()

    def planned() -> Iterator[load.Planned]:
        while not stop.is_set():
            yield load.Planned(50, 20)

    thread = threading.Thread(target=lambda: asyncio.run(load.closed(site.url, planned(), PARALLEL)))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def site(proxy: Proxy, running_mocks: list[MockBox]) -> Iterator[Site]:
    if lacking := [name for name in PROGRAMS if shutil.which(name) is None]:
        pytest.skip(f"{', '.join(lacking)}: not found (Debian's packages have these names)")
    renewed(running_mocks, slots=2)
    root = Path(tempfile.mkdtemp(prefix="lbgen-", dir="/tmp"))
    root.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        made = Site(proxy, running_mocks, root)
        for part in (balancer, prometheus, under_load):
            stack.enter_context(part(made))
        yield made


def without_data(site: Site) -> list[str]:
    """Return the dashboard's queries that give no number."""
    dashboard = json.loads((site.files / "grafana" / "dashboard.json").read_text())
    queries = [one["expr"] for panel in dashboard["panels"] for one in panel.get("targets", ())]
    assert len(queries) >= 10
    filled = [query.replace("$fleet", "site").replace("$pool", ".*") for query in queries]
    return [query for query in filled if not site.values(query)]


@pytest.mark.parametrize("proxy", [*ONE_EACH, Proxy(BETWEEN, "envoy")], ids=str)
def test_prometheus_reads_it_and_says_when_a_server_is_out(site: Site, running_mocks: list[MockBox]) -> None:
    with suppress(AssertionError):
        eventually(lambda: not without_data(site), 90, "each query of the dashboard gives data")
    assert without_data(site) == []
    assert {one["health"] for one in site.asked("targets")["activeTargets"]} == {"up"}
    in_flight = site.values('lbgen:server_in_flight{server!="gpu-3"}')
    assert len(in_flight) == 3
    assert all(0 < value <= 4 for value in in_flight.values()), in_flight
    assert set(site.values('lbgen:server_in_flight{server="gpu-3"}').values()) == {0}, "it is drained"
    assert set(site.values("lbgen:pool_servers_up").values()) == {3}
    shares = site.values(
        "lbgen:server_requests:rate5m / on (pool) group_left () sum by (pool) (lbgen:server_requests:rate5m)"
    )
    assert sum(shares.values()) == pytest.approx(1)
    [left] = site.values("probe_ssl_earliest_cert_expiry - time()").values()
    assert 4.9 * 86_400 < left <= 5 * 86_400
    if site.proxy.target == "haproxy":
        decided = site.values("lbgen_decisions_total")
        assert len(decided) == 4
        assert sum(decided.values()) >= len(running_mocks[1].requests()), decided
    assert [name for name, state, _ in site.alerts() if state == "firing"] == []
    running_mocks[0].crash()
    eventually(lambda: ("ServerOut", "firing", "gpu-0") in site.alerts(), 120, "the alert fires")
    fired = [(name, server) for name, state, server in site.alerts() if state == "firing"]
    assert fired == [("ServerOut", "gpu-0")], "of the drained server, and of the pool, nothing is said"
    assert ("CertificateNearItsEnd", "pending", "") in site.alerts()
