"""Balancers that tell each other what they learned of prefixes."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from integration.conftest import renewed
from integration.fleets import QUEUEING, SERVERS, Proxy, chat
from integration.test_strategies import Running
from integration.test_strategies import chat as asking
from lbgen.fleet.load import load
from lbgen.fleet.source import Source
from lbgen.render import render

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.lab.boxes import MockBox
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
