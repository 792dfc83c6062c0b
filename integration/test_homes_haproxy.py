"""Homes that die, drain, come back and are added: nobody waits for them, and nobody is overrun."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from integration.fleets import QUEUEING, SERVERS, Proxy, chat, files
from lbgen.lab.boxes import fetch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from integration.conftest import Start
    from lbgen.lab.boxes import Balancer, MockBox

pytestmark = pytest.mark.slow

SOCKET = "/run/lbgen.sock"
SYSTEM = "You are an agent with many tools. " * 60
TALKS = 120
PATIENCE_S = 20.0
EVEN = 1.5
"""Of the average, for conversations that begin one after the other: 3.2 draws among idle servers, and
three standard deviations of 120 draws are this much."""
HEALTH = {"path": "/health", "interval": "500ms", "timeout": "400ms", "fall": 1, "rise": 1}


def fleet(proxy: Proxy, servers: str = "gpu-[0-3]:8000") -> dict[str, Any]:
    """Return a fleet whose answers say why they came from their server."""
    return {
        **chat("prefix", servers=servers, health=HEALTH),
        "listeners": {"default": {"bind": "8080", "explain": True}},
        "targets": {"haproxy": {"version": proxy.version, "runtime_socket": SOCKET}},
    }


class Talks:
    """Conversations that share a system prompt; each turn sends all that was said."""

    def __init__(self, box: Balancer) -> None:
        self._box = box
        self._dice = random.Random(1)  # in the order of before, ties would always fall alike
        self._turns: Counter[int] = Counter()
        self.homes: dict[int, str] = {}
        self.decisions: Counter[str] = Counter()

    def turn(self, number: int) -> str:
        """Ask one more question; return which server answered."""
        self._turns[number] += 1
        said = [{"role": "user", "content": f"Task {number}"}]
        said += [{"role": "user", "content": f"Result {turn}"} for turn in range(1, self._turns[number])]
        body = {"model": "m", "max_tokens": 2, "messages": [{"role": "system", "content": SYSTEM}, *said]}
        answer = fetch(f"{self._box.url}/v1/chat/completions", "POST", json.dumps(body).encode())
        assert answer.status == 200, answer
        self.decisions[answer.headers["x-lb-decision"]] += 1
        self.homes[number] = answer.headers["x-mock-server"]
        return self.homes[number]

    def turns(self, numbers: range) -> Mapping[int, str]:
        """Ask one more question in each of these."""
        mixed = self._dice.sample(numbers, len(numbers))
        return {number: self.turn(number) for number in mixed}


@pytest.fixture(params=QUEUEING, ids=str)
def running(request: pytest.FixtureRequest, start: Start, mocks: list[MockBox]) -> Iterator[Balancer]:
    """A balancer with conversations at home on all four servers."""
    del mocks
    with start(fleet(request.param), request.param) as box:
        yield box


@pytest.fixture
def talks(running: Balancer) -> Talks:
    """Conversations that have begun, evenly: their prompt is everybody's after some questions."""
    made = Talks(running)
    made.turns(range(TALKS))
    assert set(made.homes.values()) == set(SERVERS)
    return made


def command(box: Balancer, text: str) -> str:
    return box.run("sh", "-c", f"echo '{text}' | socat - UNIX-CONNECT:{SOCKET}")


def wait_for(box: Balancer, server: str, state: str) -> None:
    """Return when HAProxy's checks say so of a server."""
    end = time.monotonic() + PATIENCE_S
    wanted = f"chat,{server},"
    while True:
        [line] = [line for line in command(box, "show stat").splitlines() if line.startswith(wanted)]
        if f",{state}" in line:
            return
        assert time.monotonic() < end, line
        time.sleep(0.1)


def busiest(shares: Counter[str], servers: int) -> float:
    """Return how many times the average the busiest server has."""
    return max(shares.values()) * servers / shares.total()


def left(before: Mapping[int, str], after: Mapping[int, str], gone: str) -> Counter[str]:
    """Return where the conversations of one server went; all others stayed at home."""
    assert all(after[number] == home for number, home in before.items() if home != gone)
    return Counter(after[number] for number, home in before.items() if home == gone)


def test_a_dead_home_spreads_its_conversations_and_comes_back(
    running: Balancer, talks: Talks, mocks: list[MockBox]
) -> None:
    before = dict(talks.homes)
    gone = before[TALKS - 1]
    dead = mocks[SERVERS.index(gone)]
    dead.crash()
    try:
        wait_for(running, gone, "DOWN")
        after = talks.turns(range(TALKS))
        moved = left(before, after, gone)
        assert gone not in moved
        assert len(moved) == 3
        assert busiest(Counter(after.values()), 3) <= 1.3, moved
        assert talks.decisions["moved"] == moved.total()
    finally:
        dead.start()
    wait_for(running, gone, "UP")
    assert talks.turns(range(TALKS)) == after  # who has moved stays
    begun = Counter(talks.turns(range(TALKS, 2 * TALKS)).values())
    assert begun[gone] >= TALKS / 4 * 0.6, begun  # who begins comes at once
    assert busiest(begun, 4) <= EVEN, begun


@pytest.mark.parametrize(("out", "back"), [("state maint", "state ready"), ("weight 0", "weight 100%")])
def test_a_home_that_is_drained_keeps_nobody(running: Balancer, talks: Talks, out: str, back: str) -> None:
    before = dict(talks.homes)
    gone = before[TALKS - 1]
    command(running, f"set server chat/{gone} {out}")
    after = talks.turns(range(TALKS))
    moved = left(before, after, gone)
    assert gone not in moved
    assert len(moved) == 3
    assert busiest(Counter(after.values()), 3) <= 1.3, moved
    command(running, f"set server chat/{gone} {back}")
    assert gone in talks.turns(range(TALKS, 2 * TALKS)).values()


def test_a_server_that_is_added_gets_new_conversations_at_once(start: Start, mocks: list[MockBox]) -> None:
    del mocks
    proxy = QUEUEING[-1]
    with start(fleet(proxy, "gpu-[0-2]:8000"), proxy) as box:
        talks = Talks(box)
        before = talks.turns(range(TALKS))
        assert set(before.values()) == set(SERVERS[:3])
        box.reload(files(fleet(proxy), proxy))
        assert talks.turns(range(TALKS)) == before  # a reload forgets no home
        begun = Counter(talks.turns(range(TALKS, 2 * TALKS)).values())
        assert busiest(begun, 4) <= EVEN, begun
