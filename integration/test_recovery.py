"""HAProxy's checks: a dead server is out in the stated time, and back by itself, warmed up where asked."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, Any

from integration.fleets import THREE, Proxy, chat, on_queueing
from integration.waiting import eventually
from lbgen.lab import load
from lbgen.lab.boxes import fetch

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration.conftest import Start
    from lbgen.lab.boxes import Balancer, MockBox

TRIES = THREE

INTERVAL_S = TIMEOUT_S = 0.5
FALL = 2
WITHIN_S = (FALL + 1) * (INTERVAL_S + TIMEOUT_S)
WARMUP_S = 6
METRICS_PORT = 8404
METRICS = {"bind": f"*:{METRICS_PORT}", "allow": ["10.0.0.0/8"]}
HEALTH = {"interval": "500ms", "timeout": "500ms", "rise": 1, "fall": FALL}
QUICK = {"x-mock-pace": "0.01,0"}


def fleet(**pool: Any) -> dict[str, Any]:
    """Return a fleet whose servers' states can be asked for."""
    return {**chat("round_robin", health=HEALTH, **pool), "metrics": METRICS}


@on_queueing
def test_a_dead_server_is_out_in_time_and_back_by_itself(
    proxy: Proxy, mocks: list[MockBox], start: Start, measured: Callable[..., None]
) -> None:
    with start(fleet(), proxy) as balancer:
        eventually(lambda: is_up(balancer, "gpu-1"), 10, "all servers are up")
        crashed_s = _out_after(balancer, mocks[1].crash)
        mocks[1].start()
        back_s = eventually(lambda: is_up(balancer, "gpu-1"), 10, "the crashed server is back")
        frozen_s = _out_after(balancer, mocks[1].freeze)
        mocks[1].thaw()
        eventually(lambda: is_up(balancer, "gpu-1"), 10, "the frozen server is back")
    measured(
        f"A server dies: seconds until it is out (at most {WITHIN_S:g}) and back", proxy,
        crashed=round(crashed_s, 1), frozen=round(frozen_s, 1), back=round(back_s, 1),
    )  # fmt: skip
    assert max(crashed_s, frozen_s) <= WITHIN_S


@on_queueing
def test_a_server_that_comes_back_is_warmed_up(proxy: Proxy, mocks: list[MockBox], start: Start) -> None:
    with start(fleet(warmup=f"{WARMUP_S}s"), proxy) as balancer:
        _out_after(balancer, mocks[1].crash)
        mocks[1].start()
        eventually(lambda: is_up(balancer, "gpu-1"), 10, "the server is back")
        cold = _share(balancer, "gpu-1")
        time.sleep(WARMUP_S)
        warm = _share(balancer, "gpu-1")
    assert cold <= 0.15, "a fair share is a quarter"
    assert 0.2 <= warm <= 0.35


def is_up(balancer: Balancer, server: str) -> bool:
    """Tell what HAProxy itself thinks of a server."""
    page = fetch(f"http://{balancer.address}:{METRICS_PORT}/metrics?scope=server").body.decode()
    line = rf'^haproxy_server_status{{proxy="chat",server="{server}",state="UP"}} 1$'
    return re.search(line, page, re.MULTILINE) is not None


def _out_after(balancer: Balancer, harm: Callable[[], None]) -> float:
    """Return the seconds from the harm done to gpu-1 until HAProxy sends it nothing more."""
    begin = time.monotonic()
    harm()
    eventually(lambda: not is_up(balancer, "gpu-1"), 20, "the server is out")
    return time.monotonic() - begin


def _share(balancer: Balancer, server: str) -> float:
    planned = [load.Planned(index * 0.01, 1, headers=QUICK) for index in range(60)]
    results = asyncio.run(load.run(balancer.url, planned, most_late_s=0.5))
    assert all(result.ok for result in results), results
    return sum(result.server == server for result in results) / len(results)
