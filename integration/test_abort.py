"""A client that leaves frees the GPU within a second, wherever its request stands."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, NamedTuple

import pytest

from integration.fleets import THREE, Proxy, chat, on_queueing
from integration.waiting import eventually

if TYPE_CHECKING:
    from integration.conftest import Start
    from lbgen.lab.boxes import Balancer, MockBox

TRIES = THREE

pytestmark = pytest.mark.alone

FREED_WITHIN_S = 1.0


class Case(NamedTuple):
    """How a request looks at the moment when its client leaves."""

    name: str
    stream: bool
    pace: str

    def __str__(self) -> str:
        return self.name


CASES = (
    Case("mid-stream", stream=True, pace="0.05,0.05"),
    Case("before-the-first-token", stream=True, pace="60,1"),
    Case("not-streaming", stream=False, pace="60,1"),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_leaving_frees_the_gpu(case: Case, proxy: Proxy, mocks: list[MockBox], start: Start) -> None:
    with start(chat(), proxy) as balancer:
        asyncio.run(_leave(balancer, case, after_s=0.4))
        took = eventually(lambda: _aborted(mocks) == 5, FREED_WITHIN_S, "the mocks notice")
    assert took <= FREED_WITHIN_S
    assert sum(mock.state()["in_flight"] for mock in mocks) == 0


@on_queueing
def test_leaving_the_queue_costs_no_gpu(mocks: list[MockBox], start: Start, proxy: Proxy) -> None:
    case = Case("queued", stream=True, pace="1.5,0")
    with start(chat(max_in_flight=1), proxy) as balancer:
        asyncio.run(_leave_after_queueing(balancer, case))
    assert sum(mock.state()["paths"].get("/v1/completions", 0) for mock in mocks) == 4


def _aborted(mocks: list[MockBox]) -> int:
    return sum(mock.state()["outcomes"].get("aborted", 0) for mock in mocks)


async def _leave(balancer: Balancer, case: Case, after_s: float) -> None:
    """Send five requests and close their connections after a while."""
    writers = [await _send(balancer, case) for _ in range(5)]
    await asyncio.sleep(after_s)
    for writer in writers:
        writer.close()


async def _leave_after_queueing(balancer: Balancer, case: Case) -> None:
    served = [await _send(balancer, case) for _ in range(4)]
    await asyncio.sleep(0.2)
    queued = [await _send(balancer, case) for _ in range(4)]
    await asyncio.sleep(0.2)
    for writer in queued:
        writer.close()
    await asyncio.sleep(2.5)
    for writer in served:
        writer.close()


async def _send(balancer: Balancer, case: Case) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection(balancer.address, balancer.port)
    body = json.dumps({"prompt": "hi", "max_tokens": 200, "stream": case.stream}).encode()
    fields = ("Host: lb", f"Content-Length: {len(body)}", f"X-Mock-Pace: {case.pace}", "", "")
    head = "\r\n".join(("POST /v1/completions HTTP/1.1", *fields))
    writer.write(head.encode() + body)
    return writer
