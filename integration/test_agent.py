"""`lbgen agent` between the mocks' metrics and HAProxy's weights: a real process, on the docker host."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from integration.conftest import renewed
from integration.fleets import QUEUEING, Proxy
from integration.waiting import eventually
from lbgen.lab import load
from lbgen.lab.boxes import fetch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from integration.conftest import Start
    from lbgen.lab.boxes import Balancer, MockBox

SMALL = 3
"""Which of the servers has a quarter of the others' cache."""
PORT, STATUS = 18_406, 18_407


@pytest.fixture
def unequal(running_mocks: list[MockBox]) -> list[MockBox]:
    """Mocks whose cache is their slots; one has 8 in place of 32."""
    renewed(running_mocks)
    running_mocks[SMALL].configure(slots=8)
    return running_mocks


def fleet(mocks: list[MockBox]) -> dict[str, Any]:
    """Return a fleet by addresses, which the host knows too."""
    host = mocks[0].address.rpartition(".")[0] + ".1"
    strategy = {"name": "kv_cache", "agent_host": host, "agent_port": PORT}
    servers = [
        {"name": f"gpu-{number}", "address": f"{mock.address}:8000"} for number, mock in enumerate(mocks)
    ]
    return {"pools": {"chat": {"engine": "vllm", "strategy": strategy, "servers": servers}}}


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
    return figures()[f'lbgen_agent_weight_percent{{pool="chat",server="gpu-{number}"}}']


def shares(balancer: Balancer, mocks: list[MockBox]) -> list[int]:
    """Keep 30 requests in flight for some seconds; return how many each server had at most after a while."""
    planned = [load.Planned(0, 60) for _ in range(300)]
    for mock in mocks:
        mock.reset()
    results = asyncio.run(load.closed(balancer.url, planned, 30))
    assert not [result for result in results if not result.ok]
    served = Counter(result.server for result in results)
    return [served[f"gpu-{number}"] for number in range(len(mocks))]


@pytest.mark.parametrize("proxy", QUEUEING, ids=str)
def test_weights_follow_the_caches_and_survive_the_agent(
    proxy: Proxy, unequal: list[MockBox], start: Start, tmp_path: Path
) -> None:
    plan = fleet(unequal)
    host = plan["pools"]["chat"]["strategy"]["agent_host"]
    path = tmp_path / "fleet.yaml"
    path.write_text(json.dumps(plan))
    with start(plan, proxy) as balancer:
        even = shares(balancer, unequal)
        assert max(even) - min(even) <= 0.4 * max(even), "without an agent: least_conn"
        with agent(path, host) as process:
            shares(balancer, unequal)
            eventually(lambda: 20 <= weight(SMALL) <= 40, 10, "the small server's weight")
            assert [weight(number) for number in range(SMALL)] == [100] * SMALL
            follows = shares(balancer, unequal)
            assert follows[SMALL] <= 0.5 * min(follows[:SMALL]), follows
            process.kill()
            process.wait()
            killed = shares(balancer, unequal)
            assert killed[SMALL] <= 0.5 * min(killed[:SMALL]), "the last weights stay"
        with agent(path, host) as process:
            before = figures()["lbgen_agent_answers_total"]
            shares(balancer, unequal)
            assert figures()["lbgen_agent_answers_total"] > before
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        assert " is DOWN" not in balancer.logs()
        assert "no server available" not in balancer.logs()


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
            assert all(weight(number) == 100 for number in range(4))
        finally:
            unequal[1].thaw()
            unequal[0].start()
        assert process.poll() is None
