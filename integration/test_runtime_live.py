"""Servers that come, go and change on a running HAProxy without a reload, with streams in flight."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from integration.fleets import on_one_queueing, on_queueing
from integration.runtime_site import ROOT, Load, Runtime, begun_after, now, runtime
from integration.waiting import eventually
from lbgen.deploy.runtime.runtime_socket import RuntimeSocket
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.fleets import Proxy
    from lbgen.lab.boxes import MockBox


CAP = 40


@pytest.fixture
def site(proxy: Proxy, mocks: list[MockBox]) -> Iterator[Runtime]:
    """A HAProxy in front of the first three of four mocks."""
    with runtime(proxy, mocks, 0, 1, 2, max_in_flight=CAP) as made:
        yield made


def fleet_of(site: Runtime, *numbers: int) -> dict[str, Any]:
    return site.fleet(*numbers, max_in_flight=CAP)


def pid(site: Runtime) -> str:
    return RuntimeSocket(site.place).info().pid


def settings(site: Runtime) -> dict[str, tuple[Any, ...]]:
    """What a reload must not change of the running servers."""
    return {
        name: (server.address, server.weight, server.cap, server.admin, server.status.split()[0])
        for name, server in site.running().items()
    }


@on_queueing
def test_servers_come_and_go_and_change(site: Runtime) -> None:
    process = pid(site)
    fleet = fleet_of(site, 1, 2, 3)
    fleet["pools"]["chat"]["servers"][0] |= {"weight": 2, "max_in_flight": 9}
    fleet["pools"]["chat"]["servers"][2] |= {"weight": 3}
    with Load(site, parallel=8, tokens=20) as running:
        eventually(lambda: site.running()["gpu-0"].in_flight > 0, 20, "the server that goes has streams")
        plan = site.lbgen("plan", fleet, "--to", str(site.folder))
        assert "+ gpu-3 at " in plan.stdout
        assert "- gpu-0 at " in plan.stdout
        assert "(reload)" not in plan.stdout
        assert "no reload needed" in plan.stdout
        done = site.apply(fleet, "--reload", "false", "--max-change", "40%")
        changed = now()
        assert done.returncode == 0, done.stderr
        assert "changed over the runtime socket, without a reload" in done.stderr
        assert pid(site) == process
        assert sorted(site.running()) == ["gpu-1", "gpu-2", "gpu-3"]
        eventually(lambda: bool(begun_after(site.mocks[3], changed)), 20, "the new one gets requests")
        assert begun_after(site.mocks[0], changed) == []
        assert site.lbgen("render", fleet, "-o", str(site.root), "--check").returncode == 0
    assert running.lost == []
    eventually(lambda: "L7OK" in site.running()["gpu-3"].check, 30, "the new one is checked")

    before = settings(site)
    reloaded = site.apply(fleet | {"name": "anew", "logs": {"level": "warning"}})
    assert reloaded.returncode == 0, reloaded.stderr
    assert pid(site) != process
    assert settings(site) == before


@on_queueing
def test_a_busy_server_goes_when_its_streams_have_ended(site: Runtime) -> None:
    with Load(site, parallel=6, tokens=200) as running:
        eventually(lambda: site.running()["gpu-0"].in_flight > 0, 20, "the server that goes has streams")
        done = site.apply(fleet_of(site, 1, 2), "--reload", "false", "--max-change", "40%")
        changed = now()
        assert done.returncode == 0, done.stderr
        assert "gpu-0 gets no new requests, but could not be removed within 10 s" in done.stderr
        assert site.running()["gpu-0"].held == "maint"

        again = site.apply(fleet_of(site, 0, 1, 2), "--reload", "false")
        assert again.returncode == 2
        assert "chat/gpu-0 still exists from before (" in again.stderr
        assert "): reloading instead" in again.stderr
        assert begun_after(site.mocks[0], changed) == []
    assert running.lost == []
    # The failed apply has put the file back and owes a reload.
    assert site.apply(fleet_of(site, 1, 2)).returncode == 0
    done = site.apply(fleet_of(site, 0, 1, 2), "--reload", "false")
    assert done.returncode == 0, done.stderr
    assert site.running()["gpu-0"].held == ""


@on_queueing
def test_another_address(site: Runtime) -> None:
    moved = fleet_of(site, 0, 1, 2)
    moved["pools"]["chat"]["servers"][2]["address"] = f"{site.mocks[3].address}:8000"
    with Load(site, parallel=8, tokens=20) as running:
        eventually(lambda: site.running()["gpu-2"].in_flight > 0, 20, "the server that moves has streams")
        done = site.apply(moved, "--reload", "false")
        changed = now()
        assert done.returncode == 0, done.stderr
        eventually(lambda: len(begun_after(site.mocks[3], changed)) > 5, 20, "the new address is used")
        assert begun_after(site.mocks[2], changed) == []
    assert running.lost == []
    before = settings(site)
    assert site.apply(moved | {"logs": {"level": "warning"}}).returncode == 0
    assert settings(site) == before


@contextmanager
def tls_server(name: str) -> Iterator[dict[str, str]]:
    """Run a mock GPU server of this machine with TLS; give its entry of the fleet."""
    port, tls = free_port(), free_port()
    command = [sys.executable, "-m", "lbgen", "mock-gpu", f"--port={port}", f"--tls-port={tls}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: is_open(tls), 30, "the server listens")
            yield {"address": f"127.0.0.1:{tls}", "name": name}
        finally:
            process.terminate()


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@on_queueing
def test_a_new_server_with_tls_is_checked_with_tls(proxy: Proxy, mocks: list[MockBox]) -> None:
    tls = {"verify": False, "server_name": "gpu.internal"}
    with tls_server("one") as one, tls_server("two") as two:
        with runtime(proxy, mocks, servers=[one], tls=tls) as site, Load(site, tokens=5) as running:
            done = site.apply(site.fleet(servers=[one, two], tls=tls), "--reload", "false")
            assert done.returncode == 0, done.stderr
            eventually(lambda: "L7" in site.running()["two"].check, 30, "it is checked")
            assert site.running()["two"].check == "L7OK 200"
            eventually(lambda: site.running()["two"].in_flight > 0, 20, "it gets requests")
        assert running.lost == []


@on_one_queueing
def test_down_in_the_file_and_up_again(site: Runtime) -> None:
    down = fleet_of(site, 0, 1, 2)
    down["pools"]["chat"]["servers"][0]["state"] = "down"
    for _ in range(2):
        assert site.apply(down, "--reload", "false", "--max-change", "40%").returncode == 0
        assert site.running()["gpu-0"].status.startswith("MAINT")
        back = site.apply(fleet_of(site, 0, 1, 2), "--reload", "false")
        assert back.returncode == 0, back.stderr
        assert "taken out at run time" not in back.stderr
        eventually(lambda: site.running()["gpu-0"].status.startswith("UP"), 20, "it is up again")


@on_one_queueing
def test_files_that_were_never_loaded_are_not_passed_over(site: Runtime) -> None:
    def fleet(cap: int) -> dict[str, Any]:
        return site.fleet(0, 1, 2, max_in_flight=cap, timeouts={"idle": "25m"})

    here = ("--to", str(site.folder), "--binary", f"haproxy=docker://{site.proxy.image}")
    process = pid(site)
    assert "warning: not reloaded" in site.lbgen("apply", fleet(CAP), *here).stderr
    assert "but the balancer runs with older ones" in site.lbgen("apply", fleet(CAP), *here).stderr
    refused = site.lbgen("apply", fleet(7), *here)
    assert refused.returncode == 2
    assert "does not run with the files in this folder: a reload is needed" in refused.stderr
    assert pid(site) == process
    assert "reloading instead" in site.apply(fleet(7)).stderr
    process = pid(site)
    assert "changed over the runtime socket" in site.apply(fleet(6)).stderr
    assert "no changes" in site.apply(fleet(6)).stdout
    assert "changed over the runtime socket" in site.apply(fleet(5)).stderr
    assert pid(site) == process
