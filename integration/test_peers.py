"""Balancers that tell each other what they learned of prefixes."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING

import pytest

from integration.bench_loads import ENGINE
from integration.bench_sessions import Simulated, moved
from integration.conftest import renewed
from integration.fleets import QUEUEING, SERVERS, Proxy, chat
from integration.test_strategies import Running
from integration.test_strategies import chat as asking
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.lab import load as load_driver
from lbgen.render import render

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lbgen.lab.boxes import Balancer, MockBox
    from lbgen.lab.rig import Rig
    from lbgen.render import RenderedFile

SOCKET = "/run/lbgen.sock"
PREFIXES = 16
PATIENCE_S = 30.0


def rendered(proxy: Proxy, own: str | None, peers: Mapping[str, str]) -> tuple[RenderedFile, ...]:
    """Return what ``--balancer OWN`` renders."""
    fleet = {
        **chat("prefix"),
        "balancers": {"peers": dict(peers)},
        "targets": {"haproxy": {"version": proxy.version, "runtime_socket": SOCKET}},
    }
    loaded = load([Source("fleet.yaml", json.dumps(fleet))], environ={}, targets=("haproxy",))
    assert loaded.fleet is not None, loaded.problems
    named = loaded.fleet._replace(balancers=loaded.fleet.balancers._replace(own=own))
    return render(named, "haproxy")


@pytest.fixture(params=QUEUEING, ids=str)
def pair(request: pytest.FixtureRequest, rig: Rig, running_mocks: list[MockBox]) -> Iterator[list[Running]]:
    """Two balancers that know each other; their addresses are known when they run, so they reload then."""
    renewed(running_mocks)
    proxy: Proxy = request.param
    with ExitStack() as stack:
        boxes = []
        for _ in range(2):
            alone = rendered(proxy, None, {"lb-0": "127.0.0.1:10000", "lb-1": "127.0.0.1:10001"})
            boxes.append(rig.balancer("haproxy", proxy.image, alone))
            stack.callback(boxes[-1].remove)
        peers = {f"lb-{number}": f"{box.address}:10000" for number, box in enumerate(boxes)}
        for name, box in zip(peers, boxes, strict=True):
            box.reload(rendered(proxy, name, peers))
        yield [Running(proxy, box) for box in boxes]


def known(running: Running) -> int:
    """Return how many prefixes a balancer knows."""
    command = f"echo show table chat | socat - UNIX-CONNECT:{SOCKET}"
    return running.box.run("sh", "-c", command).count(" key=")


def wait_until_known(running: Running, count: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while known(running) < count:
        assert time.monotonic() < end, f"{known(running)} of {count} prefixes after {PATIENCE_S} s"
        time.sleep(0.1)


def test_what_one_learns_the_other_knows(pair: list[Running]) -> None:
    first, second = pair

    def homes(running: Running, begin: int) -> list[str]:
        numbers = range(begin, begin + PREFIXES)
        return [running.server("", asking(f"You are teacher {number}. " * 20)) for number in numbers]

    learned = homes(first, 0)
    assert set(learned) == set(SERVERS)
    wait_until_known(second, PREFIXES)
    assert homes(second, 0) == learned
    # And the other way round.
    back = homes(second, 100)
    wait_until_known(first, 2 * PREFIXES)
    assert homes(first, 100) == back


AGENTS, TURNS, SPEED = 16, 8, 4.0


class Shared:
    """Agents whose turns go to balancers by turns, and one balancer that is restarted in the middle."""

    def __init__(self, boxes: Sequence[Balancer], restarted: Balancer | None) -> None:
        self._leaves = restarted
        self._up = list(boxes)
        self._open = dict.fromkeys((box.url for box in boxes), 0)
        self._answered = 0
        self._turns = count()
        self._script = Simulated(f"agents:sessions={AGENTS},turns={TURNS}").script(0, AGENTS * TURNS, SPEED)
        self.after: set[str] = set()
        """Who was asked after the restart."""

    def run(self) -> list[load_driver.Result]:
        planned = [one._replace(leaving=self._leave) for one in self._script.planned]
        driven = load_driver.run("", planned, most_late_s=PATIENCE_S, fresh=True, follow=self._follow)
        return asyncio.run(driven)

    def _leave(self, planned: load_driver.Planned) -> load_driver.Planned:
        up = [box for box in self._up if box is not self._leaves or self._answered < AGENTS * TURNS // 3]
        box = up[next(self._turns) % len(up)]
        self._open[box.url] += 1
        if self._leaves is None:
            self.after.add(box.url)
        return planned._replace(path=box.url + planned.path)

    def _follow(self, result: load_driver.Result) -> load_driver.Planned | None:
        url = next(url for url in self._open if result.planned.path.startswith(url + "/"))
        self._open[url] -= 1
        self._answered += 1
        if self._leaves and self._answered >= AGENTS * TURNS // 3 and self._open[self._leaves.url] == 0:
            self._leaves.container.restart(timeout=0)  # the driver stands still meanwhile
            self._leaves.wait_ready("/lb/live")
            self._leaves = None
        assert self._script.follow is not None
        following = self._script.follow(result)
        return following and following._replace(leaving=self._leave)


def hits(mocks: Sequence[MockBox], shared: Shared) -> float:
    """Return the share of the prompts' tokens that caches held; all turns are answered."""
    renewed(list(mocks), **(ENGINE | {"speed": SPEED}))
    results = shared.run()
    assert [result for result in results if not result.ok] == []
    assert len(results) == AGENTS * TURNS
    assert moved(results) <= 0.1
    states = [mock.state() for mock in mocks]
    held = sum(int(one["hit_tokens"]) for one in states)
    return held / sum(int(one["finished_prompt_tokens"]) for one in states)


def test_conversations_stay_at_home_with_two_balancers_and_over_a_restart(
    pair: list[Running], running_mocks: list[MockBox]
) -> None:
    first, second = (running.box for running in pair)
    shared = Shared((first, second), restarted=second)
    of_two = hits(running_mocks, shared)
    assert second.url in shared.after
    # By now this one knows all homes, so that it does as well as one can.
    assert of_two >= hits(running_mocks, Shared((first,), None)) - 0.03
