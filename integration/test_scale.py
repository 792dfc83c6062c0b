"""Thousands of slow streams at once through one balancer with the rendered limits."""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING

import pytest

from integration.conftest import renewed
from integration.fleets import Proxy, chat, on_one_each
from lbgen.lab import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration.conftest import Start
    from lbgen.lab.boxes import MockBox

pytestmark = pytest.mark.alone

STREAMS = 5_000
ARRIVE_WITHIN_S = 8.0
FIRST_S = 1
GAP_S = 6
TOKENS = 3


@pytest.fixture
def descriptors() -> None:
    """Let this process open as many connections as it needs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * STREAMS:
        pytest.skip(f"this machine allows {hard} descriptors: ulimit -Hn {2 * STREAMS}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@on_one_each
@pytest.mark.usefixtures("descriptors")
def test_five_thousand_streams_at_once(
    proxy: Proxy, running_mocks: list[MockBox], start: Start, measured: Callable[..., None]
) -> None:
    renewed(running_mocks)
    headers = {"x-mock-pace": f"{FIRST_S},{GAP_S}"}
    planned = [
        load.Planned(index * ARRIVE_WITHIN_S / STREAMS, TOKENS, headers=headers) for index in range(STREAMS)
    ]
    with start(chat(), proxy) as balancer:
        idle = balancer.memory_kib()

        async def while_busy() -> tuple[list[load.Result], int]:
            running = asyncio.create_task(load.run(balancer.url, planned, most_late_s=5))
            await asyncio.sleep(ARRIVE_WITHIN_S + 2)
            busy = await asyncio.get_running_loop().run_in_executor(None, balancer.memory_kib)
            return await running, busy

        results, busy = asyncio.run(while_busy())
    failed = [result for result in results if not result.ok]
    assert not failed, (len(failed), failed[:3])
    assert sum(mock.state()["most_in_flight"] for mock in running_mocks) > 0.9 * STREAMS
    per_stream = round((busy - idle) / STREAMS, 1)
    measured(f"{STREAMS} slow streams at once", proxy, refused=0, memory_per_stream_in_KiB=per_stream)
