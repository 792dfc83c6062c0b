"""What `lbgen status` says of running balancers."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from integration.fleets import ONE_EACH, on_one_queueing, on_queueing
from integration.runtime_site import ROOT, Load, Runtime, runtime
from integration.waiting import eventually
from lbgen.deploy.runtime.runtime_socket import RuntimeSocket
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from integration.conftest import Start
    from integration.fleets import Proxy
    from lbgen.lab.boxes import MockBox

NGINX = tuple(proxy for proxy in ONE_EACH if proxy.target == "nginx")


@pytest.fixture
def site(proxy: Proxy, mocks: list[MockBox]) -> Iterator[Runtime]:
    """A HAProxy in front of four mocks, with two places each."""
    with runtime(proxy, mocks, max_in_flight=2) as made:
        yield made


def fleet_of(site: Runtime) -> dict[str, Any]:
    return site.fleet(max_in_flight=2)


def asked_status(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lbgen", "status", str(file), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def status(site: Runtime, *words: str) -> dict[str, Any]:
    done = site.lbgen("status", fleet_of(site), "--format", "json", *words)
    assert done.returncode == 0, done.stderr
    balancers: list[dict[str, Any]] = json.loads(done.stdout)["balancers"]
    assert len(balancers) == 1
    return balancers[0]


def by_name(balancer: dict[str, Any]) -> dict[str, Any]:
    [pool] = balancer["pools"]
    return {server["name"]: server for server in pool["servers"]}


@on_queueing
def test_haproxy_in_flight_queue_state_and_check(site: Runtime) -> None:
    with Load(site, parallel=12, tokens=100):
        eventually(lambda: sum(one.in_flight for one in site.running().values()) == 8, 20, "all are full")
        balancer = status(site)
        [pool] = balancer["pools"]
        assert balancer["version"].startswith(f"{site.proxy.version}.")
        assert pool["name"] == "chat"
        assert pool["queued"] == 4
        assert pool["in_flight"] >= 8
        assert pool["differences"] == []
        servers = by_name(balancer)
        assert [server["in_flight"] for server in servers.values()] == [2, 2, 2, 2]
        assert {server["state"] for server in servers.values()} == {"up"}
        assert {server["max_in_flight"] for server in servers.values()} == {2}
        eventually(lambda: "L7OK 200" in by_name(status(site))["gpu-3"]["check"], 20, "it is checked")

        text = site.lbgen("status", fleet_of(site)).stdout
        assert f"haproxy {balancer['version']} at {site.place}" in text
        assert re.search(r"^  gpu-2 +up.* 1 +2/2 ", text, re.MULTILINE), text


@on_one_queueing
def test_haproxy_differences_from_the_fleet(site: Runtime) -> None:
    socket = RuntimeSocket(site.place)
    socket.order("set server chat/gpu-0 weight 7")
    socket.order("set server chat/gpu-1 state drain")
    socket.order("set maxconn server chat/gpu-2 9")
    socket.order("set server chat/gpu-3 state maint")
    assert socket.ask("del server chat/gpu-3").strip() == "Server deleted."
    done = site.lbgen("status", fleet_of(site), "--exit-code")
    assert done.returncode == 1, done.stderr
    for line in (
        "gpu-0 runs with weight 7, in the file 1",
        "gpu-1 was drained at run time",
        "gpu-2 runs with max_in_flight 9, in the file 2",
        "gpu-3 is in the file, but not running",
    ):
        assert line in done.stdout
    assert by_name(status(site))["gpu-1"]["held"] == "drain"
    silent = site.lbgen("status", fleet_of(site), "--socket", site.place, "--socket", f"{site.root}/no.sock")
    assert silent.returncode == 2
    assert "gpu-0 runs with" in silent.stdout
    assert "no.sock: no answer on the runtime socket" in silent.stderr


@on_one_queueing
def test_watch_ends_with_ctrl_c(site: Runtime) -> None:
    process = site.start("status", fleet_of(site), "--watch", "--interval", "200ms", "--format", "json")
    assert process.stdout
    lines = [json.loads(process.stdout.readline()) for _ in range(3)]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert err == ""
    assert [len(line["balancers"]) for line in lines] == [1, 1, 1]


@pytest.mark.parametrize("proxy", NGINX, ids=str)
def test_nginx_tells_connections_and_requests(
    proxy: Proxy, mocks: list[MockBox], start: Start, tmp_path: Path
) -> None:
    fleet = {
        "pools": {"chat": {"engine": "vllm", "servers": [f"{mock.address}:8000" for mock in mocks]}},
        "targets": {"nginx": {"version": proxy.version}},
    }
    port = free_port()
    metrics = {"metrics": {"bind": f"0.0.0.0:{port}", "allow": ["10.0.0.0/8"]}}
    with start(fleet | metrics, proxy) as balancer:
        asked = fleet | {"metrics": {"bind": f"{balancer.address}:{port}", "allow": ["10.0.0.0/8"]}}
        file = tmp_path / "fleet.yaml"
        file.write_text(yaml.safe_dump(asked))
        before = asked_status(file, "--format", "json")
        assert before.returncode == 0, before.stderr
        [first] = json.loads(before.stdout)["balancers"]
        time.sleep(0.2)
        [second] = json.loads(asked_status(file, "--format", "json").stdout)["balancers"]
        assert second["requests"] == first["requests"] + 1
        assert second["target"] == "nginx"
        text = asked_status(file).stdout
        assert "0 requests in flight" in text
        assert "has no counters per server" in text
    gone = asked_status(file)
    assert gone.returncode == 2
    assert "no answer from NGINX" in gone.stderr
