"""A reload cuts no stream, and servers can be restarted one after the other without anybody noticing."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from integration.fleets import SERVERS, Proxy, chat, files
from integration.waiting import eventually
from lbgen.lab import load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from integration.conftest import Start
    from lbgen.lab.boxes import Balancer, MockBox

STREAMS = 50
RELOADS = 10
STEADY = {"x-mock-pace": "0.05,0.2"}
QUICK = {"x-mock-pace": "0.02,0.02"}


@pytest.mark.usefixtures("mocks")
def test_streams_survive_reloads(proxy: Proxy, start: Start) -> None:
    streams = [load.Planned(index * 0.01, 30, headers=STEADY) for index in range(STREAMS)]
    fresh = [load.Planned(index * 0.02, 3, headers=QUICK) for index in range(250)]
    with start(chat(), proxy) as balancer:
        before = len(balancer.processes())

        async def all_of_it() -> tuple[list[load.Result], list[load.Result]]:
            reloads = asyncio.create_task(_reloads(balancer))
            both = await asyncio.gather(
                load.run(balancer.url, streams, most_late_s=1),
                load.run(balancer.url, fresh, most_late_s=1, fresh=True),
            )
            await reloads
            return both

        streamed, answered = asyncio.run(all_of_it())
        assert not [result for result in streamed if not result.ok], streamed
        assert not [result for result in answered if not result.ok]
        eventually(lambda: len(balancer.processes()) <= before, 10, "the old processes are gone")


def test_rolling_restart_loses_nothing(proxy: Proxy, mocks: list[MockBox], start: Start) -> None:
    restarted: list[int] = []

    def planned() -> Iterator[load.Planned]:
        while len(restarted) < len(mocks):
            yield load.Planned(0, 4, headers={"x-mock-pace": "0.1,0.1"})

    with start(_with_drained(None), proxy) as balancer:

        async def all_restarted() -> list[load.Result]:
            running = asyncio.create_task(load.closed(balancer.url, planned(), 12, fresh=True))
            for index in range(len(mocks)):
                await _in_thread(_restart, balancer, proxy, mocks, index)
                restarted.append(index)
            return await running

        results = asyncio.run(all_restarted())
    assert not [result for result in results if not result.ok]
    assert {result.server for result in results} == set(SERVERS)


async def _reloads(balancer: Balancer) -> None:
    for _ in range(RELOADS):
        await asyncio.sleep(0.5)
        await _in_thread(balancer.reload)


def _in_thread(call: Any, *arguments: Any) -> Awaitable[Any]:
    return asyncio.get_running_loop().run_in_executor(None, call, *arguments)


def _with_drained(index: int | None) -> dict[str, Any]:
    states = ["drain" if number == index else "up" for number in range(len(SERVERS))]
    addresses = [f"{name}:8000" for name in SERVERS]
    servers = [{"address": address, "state": state} for address, state in zip(addresses, states, strict=True)]
    return chat(servers=servers)


def _restart(balancer: Balancer, proxy: Proxy, mocks: list[MockBox], index: int) -> None:
    """Take one server out, restart it when its last request has ended, and bring it back."""
    balancer.reload(files(_with_drained(index), proxy))
    eventually(lambda: _quiet(mocks[index]), 30, "the last request of the drained server ends")
    mocks[index].crash()
    mocks[index].start()
    balancer.reload(files(_with_drained(None), proxy))


def _quiet(mock: MockBox) -> bool:
    """Tell whether a server has had nothing to do for half a second: old workers send no more."""
    series = mock.in_flight()
    return series[-1][1] == 0 and time.monotonic() - series[-1][0] > 0.5
