"""`lbgen agent` between the mocks' metrics and HAProxy's weights and caps: a process on the docker host."""

from __future__ import annotations

import asyncio
import csv
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from integration.conftest import renewed
from integration.fleets import Proxy, on_one_queueing
from integration.waiting import eventually
from lbgen.lab import load
from lbgen.lab.boxes import fetch
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from integration.conftest import Start
    from lbgen.lab.boxes import Balancer, MockBox

pytestmark = pytest.mark.slow

SMALL = 3
"""Which of the servers has a quarter of the others' cache."""
SLOTS = 8
"""Of that one; the others have 32."""
PORT, STATUS = free_port("0.0.0.0"), free_port()
SOCKET = "/tmp/admin.sock"
"""HAProxy's own, in its container."""


@pytest.fixture
def unequal(running_mocks: list[MockBox]) -> list[MockBox]:
    """Mocks whose cache is their slots; one has 8 in place of 32."""
    renewed(running_mocks)
    running_mocks[SMALL].configure(slots=SLOTS)
    return running_mocks


def fleet(mocks: list[MockBox]) -> dict[str, Any]:
    """Return a fleet by addresses, which the host knows too."""
    host = mocks[0].address.rpartition(".")[0] + ".1"
    strategy = {"name": "kv_cache", "agent_host": host, "agent_port": PORT}
    servers = [
        {"name": f"gpu-{number}", "address": f"{mock.address}:8000"} for number, mock in enumerate(mocks)
    ]
    pool = {"engine": "vllm", "strategy": strategy, "servers": servers, "queue": {"timeout": "5m"}}
    return {"pools": {"chat": pool}, "targets": {"haproxy": {"runtime_socket": SOCKET}}}


@contextmanager
def agent(path: Path, host: str) -> Iterator[subprocess.Popen[str]]:
    """Run the agent on the bridge's address until the end, or until it is killed."""
    command = [sys.executable, "-m", "lbgen", "agent", str(path), f"--listen={host}:{PORT}"]
    command += [f"--status=127.0.0.1:{STATUS}", "--interval=200ms"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        eventually(is_healthy, 20, "the agent answers on /health")
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def is_healthy() -> bool:
    """Tell whether an agent answers."""
    try:
        return fetch(f"http://127.0.0.1:{STATUS}/health", timeout_s=2).status == 200
    except OSError:
        return False


def figures() -> dict[str, float]:
    """Return the agent's own metrics."""
    page = fetch(f"http://127.0.0.1:{STATUS}/metrics").body.decode()
    lines = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def weight(number: int) -> float:
    return figures().get(f'lbgen_agent_weight_percent{{pool="chat",server="gpu-{number}"}}', 100)


def told(balancer: Balancer, number: int) -> tuple[str, int, int]:
    """Return the state, the weight and the cap (0: none) that HAProxy has for a server."""
    page = balancer.run("sh", "-c", f"echo show stat | socat - {SOCKET}")
    rows = csv.DictReader(page.removeprefix("# ").splitlines())
    row = next(row for row in rows if (row["pxname"], row["svname"]) == ("chat", f"gpu-{number}"))
    return row["status"], int(row["weight"]), int(row["slim"] or 0)


def shares(balancer: Balancer, mocks: list[MockBox], count: int = 300, parallel: int = 30) -> list[int]:
    """Keep requests in flight for some seconds; return how many each server served."""
    planned = [load.Planned(0, 60) for _ in range(count)]
    for mock in mocks:
        mock.reset()
    results = asyncio.run(load.closed(balancer.url, planned, parallel))
    assert not [result for result in results if not result.ok]
    served = Counter(result.server for result in results)
    return [served[f"gpu-{number}"] for number in range(len(mocks))]


def learnt(balancer: Balancer, mocks: list[MockBox]) -> None:
    """Keep the servers busy until the small one's weight is known: the agent wants 30 s of readings."""
    end = time.monotonic() + 180
    while weight(SMALL) == 100:
        assert time.monotonic() < end, figures()
        shares(balancer, mocks, 1_000, 60)


@on_one_queueing
def test_weights_and_caps_follow_the_caches_and_survive_the_agent(
    proxy: Proxy, unequal: list[MockBox], start: Start, tmp_path: Path
) -> None:
    plan = fleet(unequal)
    host = plan["pools"]["chat"]["strategy"]["agent_host"]
    path = tmp_path / "fleet.yaml"
    path.write_text(json.dumps(plan))
    with start(plan, proxy) as balancer:
        even = shares(balancer, unequal)
        assert max(even) - min(even) <= 0.4 * max(even), "without an agent: least_conn"
        assert told(balancer, SMALL)[1:] == (256, 0)
        with agent(path, host) as process:
            learnt(balancer, unequal)
            assert 15 <= weight(SMALL) <= 40
            assert [weight(number) for number in range(SMALL)] == [100] * SMALL
            eventually(lambda: told(balancer, SMALL)[1] < 128, 10, "HAProxy has the weight")
            assert told(balancer, SMALL)[2] in range(SLOTS - 1, SLOTS + 3)
            full = shares(balancer, unequal, 1_000, 160)
            assert full[SMALL] <= 0.6 * min(full[:SMALL]), full
            assert unequal[SMALL].state()["most_in_flight"] <= SLOTS + 3, "the rest waits in HAProxy"
            process.kill()
            process.wait()
            kept = told(balancer, SMALL)
            follows = shares(balancer, unequal)
            assert follows[SMALL] <= 0.6 * min(follows[:SMALL]), "the last word stays"
        with agent(path, host) as process:
            before = figures()["lbgen_agent_answers_total"]
            eventually(lambda: figures()["lbgen_agent_answers_total"] > before, 10, "it answers")
            shares(balancer, unequal)
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        assert kept[0] == told(balancer, SMALL)[0] == "UP"
        assert " is DOWN" not in balancer.logs()
        assert "no server available" not in balancer.logs()


@on_one_queueing
def test_the_agent_takes_no_drain_back(
    proxy: Proxy, unequal: list[MockBox], start: Start, tmp_path: Path
) -> None:
    """HAProxy does what an agent's 'ready' says: it ends what an operator ordered by hand (2.6 to 3.2)."""
    plan = fleet(unequal)
    path = tmp_path / "fleet.yaml"
    path.write_text(json.dumps(plan))
    with start(plan, proxy) as balancer, agent(path, plan["pools"]["chat"]["strategy"]["agent_host"]):
        shares(balancer, unequal)
        balancer.run("sh", "-c", f"echo 'set server chat/gpu-0 state drain' | socat - {SOCKET}")
        before = figures()["lbgen_agent_answers_total"]
        eventually(
            lambda: figures()["lbgen_agent_answers_total"] > before + 12, 20, "each server is asked thrice"
        )
        assert shares(balancer, unequal)[0] == 0
        balancer.run("sh", "-c", f"echo 'set server chat/gpu-0 state ready' | socat - {SOCKET}")
        assert shares(balancer, unequal)[0] > 0


def test_a_dead_engine_stops_no_agent(unequal: list[MockBox], tmp_path: Path) -> None:
    plan = fleet(unequal)
    host = plan["pools"]["chat"]["strategy"]["agent_host"]
    path = tmp_path / "fleet.yaml"
    path.write_text(json.dumps(plan))
    with agent(path, host) as process:
        unequal[0].crash()
        unequal[1].freeze()
        try:
            eventually(lambda: figures()["lbgen_agent_scrape_failures_total"] > 3, 20, "failures are counted")
            before = figures()["lbgen_agent_scrapes_total"]
            eventually(lambda: figures()["lbgen_agent_scrapes_total"] > before + 3, 10, "the others are read")
            assert {weight(number) for number in range(2, 4)} == {100}
        finally:
            unequal[1].thaw()
            unequal[0].start()
        assert process.poll() is None
