"""NGINX with njs: a prefix has its share of the requests in flight, and no more."""

from __future__ import annotations

import http.client
import json
import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from integration.conftest import renewed
from integration.fleets import SERVERS, Proxy, chat, files
from integration.test_strategies import Running, paced
from lbgen.lab.pace import HEADER as PACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.lab.boxes import MockBox
    from lbgen.lab.rig import Rig

PROMPT = "You are hot. " * 50
HOT = 100
WITH_COUNTS = tuple(Proxy(generation, "nginx") for generation in ("trixie", "sid"))
"""Debian 12 has njs 0.7.9, which cannot count for all workers."""


@pytest.fixture(scope="module", params=WITH_COUNTS, ids=str)
def running(request: pytest.FixtureRequest, running_mocks: list[MockBox], rig: Rig) -> Iterator[Running]:
    proxy: Proxy = request.param
    fleet = {**chat("prefix"), "targets": {"nginx": {"version": proxy.version, "modules": ["njs"]}}}
    renewed(running_mocks)
    with ExitStack() as stack:
        box = rig.balancer("nginx", proxy.image, files(fleet, proxy))
        stack.callback(box.remove)
        yield Running(proxy, box)


def homes(running: Running, count: int = 8) -> set[str]:
    """Return which servers get the prefix when nothing else runs."""
    found = set()
    for _ in range(count):
        [one] = running.burst("", paced(1, "0.01,0", prompt=PROMPT))
        found.add(str(one.server))
    return found


def test_a_hot_prefix_spreads_and_comes_home(running: Running) -> None:
    before = homes(running)
    assert len(before) == 1
    shares = Counter(result.server for result in running.burst("", paced(HOT, "1.0,0", prompt=PROMPT)))
    assert set(shares) == set(SERVERS)
    assert max(shares.values()) <= 1.25 * HOT / len(SERVERS) + 8, shares
    # What is over is counted no more; where NGINX learns, the home may be another one now.
    after = homes(running)
    assert len(after) == 1
    assert after == before or running.proxy.generation == "sid"


def test_clients_that_leave_are_counted_no_more(running: Running) -> None:
    homes(running, 1)
    left = []
    for _ in range(12):
        connection = http.client.HTTPConnection(running.box.address, 8080, timeout=20)
        body = json.dumps({"model": "mock", "stream": True, "max_tokens": 50, "prompt": PROMPT})
        headers = {"Content-Type": "application/json", PACE: "20,0"}
        connection.request("POST", "/v1/completions", body, headers)
        left.append(connection)
    time.sleep(0.5)
    for connection in left:
        connection.close()
    time.sleep(0.5)
    assert len(homes(running)) == 1


def test_requests_that_no_server_takes_are_counted_no_more(
    running: Running, running_mocks: list[MockBox]
) -> None:
    homes(running, 1)
    for mock in running_mocks:
        mock.crash()
    body = {"model": "mock", "prompt": PROMPT}
    try:
        statuses = {running.whole("/v1/completions", 8080, body).status for _ in range(12)}
    finally:
        for mock in running_mocks:
            mock.start()
    assert statuses == {503}
    time.sleep(11)  # until the servers are tried again: passive_health.window
    assert len(homes(running)) == 1
