"""NGINX with njs: conversations have homes, prompts too, and no server more than its share."""

from __future__ import annotations

import http.client
import json
import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from integration.conftest import renewed
from integration.conversations import NAMES, expect_homes_on_all_servers, servers_of, turns
from integration.fleets import SERVERS, Proxy, files
from integration.test_strategies import Running, paced
from lbgen.lab.mock.pace import HEADER as PACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.lab.boxes import MockBox
    from lbgen.lab.rig import Rig

PROMPT = "You are hot. " * 50
HOT = 100
TALKS = 120
AGENTS = 32
"""Enough that the dozen which comes before a prompt is everybody's is less than half (seen: 13 of 24)."""
WITH_COUNTS = tuple(Proxy(generation, "nginx") for generation in ("trixie", "sid"))
"""Debian 12 has njs 0.7.9, which cannot count for all workers."""


def fleet(proxy: Proxy, servers: object = "gpu-[0-3]:8000") -> dict[str, Any]:
    """Return a fleet with a pool for conversations and one for prompts alone."""
    pool = {"engine": "vllm", "servers": servers}
    return {
        "pools": {
            "agents": {**pool, "strategy": "prefix"},
            "prompts": {**pool, "strategy": {"name": "prefix", "key": "system_prompt"}},
        },
        "listeners": {
            "default": {
                "bind": "*:8080",
                "routes": [{"path": "/prompts", "pool": "prompts"}, {"name": "rest", "pool": "agents"}],
            }
        },
        "targets": {"nginx": {"version": proxy.version, "modules": ["njs"]}},
    }


@pytest.fixture(scope="module", params=WITH_COUNTS, ids=str)
def running(request: pytest.FixtureRequest, running_mocks: list[MockBox], rig: Rig) -> Iterator[Running]:
    proxy: Proxy = request.param
    renewed(running_mocks)
    with ExitStack() as stack:
        box = rig.balancer("nginx", proxy.image, files(fleet(proxy), proxy))
        stack.callback(box.remove)
        yield Running(proxy, box)


def homes(running: Running, count: int = 8) -> set[str]:
    """Return which servers get the prefix when nothing else runs."""
    found = set()
    for _ in range(count):
        [one] = running.burst("prompts", paced(1, "0.01,0", prompt=PROMPT))
        found.add(str(one.server))
    return found


def test_a_hot_prefix_spreads_and_comes_home(running: Running) -> None:
    before = homes(running)
    assert len(before) == 1
    shares = Counter(result.server for result in running.burst("prompts", paced(HOT, "1.0,0", prompt=PROMPT)))
    assert set(shares) == set(SERVERS)
    assert max(shares.values()) <= 1.25 * HOT / len(SERVERS) + 8, shares
    # What is over is counted no more.
    assert homes(running) == before


def test_clients_that_leave_are_counted_no_more(running: Running) -> None:
    homes(running, 1)
    left = []
    for _ in range(12):
        connection = http.client.HTTPConnection(running.box.address, 8080, timeout=20)
        body = json.dumps({"model": "mock", "stream": True, "max_tokens": 50, "prompt": PROMPT})
        headers = {"Content-Type": "application/json", PACE: "20,0"}
        connection.request("POST", "/prompts/v1/completions", body, headers)
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
        statuses = {running.whole("/prompts/v1/completions", 8080, body).status for _ in range(12)}
    finally:
        for mock in running_mocks:
            mock.start()
    assert statuses == {503}
    time.sleep(11)  # until the servers are tried again: passive_health.window
    assert len(homes(running)) == 1


def test_agents_with_one_prompt_have_homes_on_all_servers(running: Running) -> None:
    expect_homes_on_all_servers(running, AGENTS)


def test_the_log_tells_why_a_request_went_where_it_did(running: Running) -> None:
    turns(running, f"told-{time.monotonic()}", 0, 3)
    lines = [json.loads(line) for line in running.box.logs().splitlines() if line.startswith('{"time"')]
    decisions = [line["decision"] for line in lines if line["path"].endswith("/v1/chat/completions")]
    assert decisions[-3] in {"least", "prompt"}
    assert decisions[-2:] == ["home", "home"]


def test_homes_outlive_a_reload(running: Running) -> None:
    names = [f"later-{time.monotonic()}-{number}" for number in range(AGENTS)]
    before = [turns(running, name, 0, 1) for name in names]
    running.box.reload()
    time.sleep(1.5)
    assert [turns(running, name, 1, 1) for name in names] == before


def test_a_home_that_dies_leaves_its_conversations_to_all_others(
    running: Running, running_mocks: list[MockBox]
) -> None:
    names = [f"moved-{time.monotonic()}-{number}" for number in range(AGENTS)]
    homes_of = {name: turns(running, name, 0, 1)[0] for name in names}
    lost = [name for name, home in homes_of.items() if home == SERVERS[0]]
    running_mocks[0].crash()
    try:
        tried = {name: turns(running, name, 1, 3) for name in lost}
    finally:
        running_mocks[0].start()
    assert all(SERVERS[0] not in servers for servers in tried.values())
    # The first try is NGINX's own choice, what comes after it a new home.
    assert all(servers[1] == servers[2] for servers in tried.values())
    assert len({servers[2] for servers in tried.values()}) >= 2, tried
    stay = [name for name in names if name not in tried]
    assert [turns(running, name, 1, 1)[0] for name in stay] == [homes_of[name] for name in stay]
    time.sleep(11)  # until the server is tried again: passive_health.window


def test_a_home_that_is_drained_keeps_nobody_and_is_at_once_one_of_all_when_it_is_back(
    running: Running,
) -> None:
    before = begun(running, "drained")
    drained = [{"address": f"{SERVERS[0]}:8000", "state": "drain"}, "gpu-[1-3]:8000"]
    try:
        running.box.reload(files(fleet(running.proxy, drained), running.proxy))
        after = {name: turns(running, name, 1, 1)[0] for name in before}
        assert all(after[name] == home for name, home in before.items() if home != SERVERS[0])
        moved = Counter(after[name] for name, home in before.items() if home == SERVERS[0])
        assert set(moved) == set(SERVERS[1:])
        assert busiest(after, 3) <= 1.3, moved
    finally:
        running.box.reload(files(fleet(running.proxy), running.proxy))
    assert {name: turns(running, name, 2, 1)[0] for name in before} == after
    expect_even(begun(running, "back"), 4)


def test_a_server_that_is_added_gets_new_conversations_at_once(running: Running) -> None:
    try:
        running.box.reload(files(fleet(running.proxy, "gpu-[0-2]:8000"), running.proxy))
        before = begun(running, "of-three")
        expect_even(before, 3)
    finally:
        running.box.reload(files(fleet(running.proxy), running.proxy))
    assert {name: turns(running, name, 1, 1)[0] for name in before} == before
    expect_even(begun(running, "of-four"), 4)


def begun(running: Running, kind: str) -> dict[str, str]:
    """Begin conversations one after the other; return their homes."""
    names = [f"{kind}-{time.monotonic()}-{number}" for number in range(TALKS)]
    return {name: turns(running, name, 0, 1)[0] for name in names}


def busiest(homes_of: Mapping[str, str], servers: int) -> float:
    """Return how many times the average the busiest server has."""
    return max(Counter(homes_of.values()).values()) * servers / len(homes_of)


def expect_even(homes_of: Mapping[str, str], servers: int) -> None:
    """Fail unless each of so many servers has about its share."""
    assert len(set(homes_of.values())) == servers
    assert busiest(homes_of, servers) <= 1.3, Counter(homes_of.values())


@pytest.mark.parametrize(("named", "headers"), NAMES)
def test_what_names_a_conversation(running: Running, named: dict[str, Any], headers: dict[str, str]) -> None:
    assert len(servers_of(running, named, headers, 12)) == 1
