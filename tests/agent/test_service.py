from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbgen.agent import pages
from lbgen.agent.pages import health_page, metrics_page, status_pages
from lbgen.agent.readings import MOST_REQUESTS, Reading, read_page
from lbgen.agent.service import run
from lbgen.agent.watch import Agent, Watched, _body
from lbgen.agent.weights import LEAST, Pool
from lbgen.engines import ENGINES, Metrics
from lbgen.units import Address
from tests.agent.engines import PAGE, Engine, serving
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

assert ENGINES["vllm"].metrics is not None
VLLM: Metrics = ENGINES["vllm"].metrics
PATIENCE_S = 20.0
FIGURES = st.one_of(
    st.floats().map(repr),
    st.floats(0, 200).map(repr),
    st.sampled_from(["1e300", "1e-300", "5e-324", "-0", "9" * 85, "9" * 400, "+Inf", "1_0", "0x1p3", ""]),
)
"""What stands for a number on a metrics page."""


def agent(*ports: int, cap: int | None = None, interval: float = 0.1) -> Agent:
    """Return an agent for servers gpu-0, gpu-1, … of the pool chat."""
    names = tuple(f"gpu-{number}" for number in range(len(ports)))
    watched = tuple(
        Watched("chat", name, f"http://127.0.0.1:{port}/metrics", VLLM, cap)
        for name, port in zip(names, ports, strict=True)
    )
    made = Agent(watched, {"chat": Pool(names, 0.95)}, interval)
    made.patience_s = 0.5
    return made


def seen(one: Agent, name: str, *readings: Reading) -> None:
    for number, reading in enumerate(readings):
        one.pools["chat"].gauges[name].observe(reading, number)


@pytest.mark.parametrize("question", ["", "chat", "chat/gpu-9\n", "other/gpu-0\n", "\x00/\n", "chat/gpu-0/x"])
def test_who_is_unknown_is_told_nothing(question: str) -> None:
    one = agent(1)
    seen(one, "gpu-0", Reading(30, 0, 0.3))
    assert one.answer(question, 1) == "\n"


def test_nothing_is_said_before_the_first_reading() -> None:
    """What an earlier agent said stays: an agent that has just begun knows no better."""
    assert agent(1).answer("chat/gpu-0\n", 1) == "\n"


def test_an_idle_engine_has_full_weight_and_no_limit() -> None:
    one = agent(1)
    seen(one, "gpu-0", Reading(0, 0, 0.0, 0))
    assert one.answer("chat/gpu-0\n", 1) == "up 100% maxconn:0\n"


@pytest.mark.parametrize(("allowed", "told"), [(None, 101), (40, 40), (200, 101)])
def test_the_fleets_cap_is_never_exceeded(allowed: int | None, told: int) -> None:
    one = agent(1, cap=allowed)
    seen(one, "gpu-0", Reading(30, 0, 0.3))
    assert one.answer("chat/gpu-0\n", 1) == f"up 100% maxconn:{told}\n"


@given(st.lists(st.tuples(FIGURES, FIGURES, FIGURES, FIGURES), min_size=1, max_size=40))
def test_any_figure_that_an_engine_tells_is_survived(looks: list[tuple[str, ...]]) -> None:
    one = agent(1, 2)
    metrics = ENGINES["vllm"].metrics
    assert metrics is not None
    names = [found[-1] for found in (metrics.running, metrics.waiting, metrics.kv_usage, metrics.generated)]
    for now, figures in enumerate(looks):
        page = "\n".join(f"{name} {figure}" for name, figure in zip(names, figures, strict=True))
        for gauge in one.pools["chat"].gauges.values():
            gauge.observe(read_page(page.encode(), metrics), now)
        told = re.fullmatch(r"up (\d+)% maxconn:(\d+)\n", one.answer("chat/gpu-0\n", now))
        assert told, "an answer that HAProxy understands"
        assert LEAST <= int(told[1]) <= 100
        assert int(told[2]) <= 2 * MOST_REQUESTS
    assert "nan" not in metrics_page(one, len(looks)) + health_page(one, len(looks))


def test_the_agents_own_pages() -> None:
    one = agent(1, 2)
    seen(one, "gpu-0", Reading(30, 0, 0.3))
    page = metrics_page(one, 2.5)
    assert 'lbgen_agent_weight_percent{pool="chat",server="gpu-0"} 100' in page
    assert 'lbgen_agent_max_in_flight{pool="chat",server="gpu-0"} 101' in page
    assert 'lbgen_agent_reading_age_seconds{pool="chat",server="gpu-0"} 2.500' in page
    assert "gpu-1" not in page, "nothing is known of it"
    assert health_page(one, 0.5) == "ok: 1 of 2 servers can be read\n"
    assert health_page(one, 60) == "ok: 0 of 2 servers can be read\n"


async def eventually(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE_S} s: {what}"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def running(one: Agent) -> AsyncIterator[int]:
    """Run an agent and give its port; at the end it gets SIGTERM, and has to close the port."""
    port, ready = free_port(), asyncio.Event()
    task = asyncio.create_task(run(one, Address("127.0.0.1", port), None, ready.set))
    await asyncio.wait_for(ready.wait(), PATIENCE_S)
    try:
        yield port
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(task, PATIENCE_S)
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\n" + b"x: " + b"y" * 100_000 + b"\r\n\r\n",
    ],
)
def test_nonsense_from_a_client_is_its_own_affair(nonsense: bytes, caplog: pytest.LogCaptureFixture) -> None:
    assert b" 40" in asyncio.run(answered(nonsense)).partition(b"\r\n")[0]
    assert caplog.records == []


def test_an_error_of_our_own_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pages, "health_page", lambda *_: 1 / 0)
    question = b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    assert b" 500 " in asyncio.run(answered(question))
    assert "ZeroDivisionError" in caplog.text


async def answered(question: bytes) -> bytes:
    """Return what the agent's own pages say to these bytes."""
    address = Address("127.0.0.1", free_port())
    runner = await status_pages(agent(1), address)
    try:
        return await asked(address.port, question)
    finally:
        await runner.cleanup()


async def asked(port: int, question: bytes = b"chat/gpu-0\n") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(question)
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    except ConnectionResetError:
        return b""  # closed with some of the question unread
    finally:
        writer.close()


def test_an_answer_rests_on_the_engines_page_and_the_port_is_closed_at_the_end() -> None:
    async def scenario() -> None:
        async with serving(Engine()) as page_port:
            one = agent(page_port)
            async with running(one) as port:
                await eventually(lambda: one.scrapes > 2, "the page is read")
                assert await asked(port) == b"up 100% maxconn:101\n"
                assert await asked(port, b"x" * 5000 + b"\n") == b"", "what is too long is no question"
                assert await asked(port) == b"up 100% maxconn:101\n"

    asyncio.run(scenario())


class Endless:
    """An answer of which no end is known."""

    status = 200

    def __init__(self) -> None:
        self.content = self

    async def iter_any(self) -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 1024**2


def test_a_page_has_an_end() -> None:
    with pytest.raises(ValueError, match="more than"):
        asyncio.run(_body(Endless()))  # type: ignore[arg-type]


FAULTS = (
    "hangs",
    "cuts",
    "floods",
    "babbles",
    "HTTP/1.1 503 Busy",
    "HTTP/1.1 302 Found\r\nLocation: /metrics",
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_sick_engine_keeps_its_estimate_and_delays_nobody(fault: str) -> None:
    async def scenario() -> None:
        sick, healthy = Engine(), Engine()
        async with serving(sick) as first, serving(healthy) as second:
            one = agent(first, second)
            async with running(one) as port:
                await eventually(lambda: sick.asked > 1 and healthy.asked > 1, "both are read")
                await eventually(lambda: "gpu-0" in metrics_page(one, 0), "the first is known")
                sick.page = "nothing of interest"
                if fault.startswith("HTTP"):
                    sick.head = fault
                else:
                    sick.behaviour = fault
                await eventually(lambda: one.failures > 1, "the fault is counted")
                before = healthy.asked
                await eventually(lambda: healthy.asked > before + 5, "the other is still read")
                assert await asked(port) == await asked(port, b"chat/gpu-1\n") == b"up 100% maxconn:101\n"

    asyncio.run(scenario())


def test_a_dead_engine_is_read_again_when_it_is_back_with_another_memory() -> None:
    async def scenario() -> None:
        engine = Engine()
        async with serving(engine) as page_port:
            one = agent(page_port)
            async with running(one) as port:
                await eventually(lambda: one.scrapes > 1, "the page is read")
                engine.behaviour = "cuts"
                await eventually(lambda: one.failures > 3, "it is gone")
                engine.behaviour, engine.page = "answers", PAGE.replace("0.3", "0.6")
                before = one.scrapes
                await eventually(lambda: one.scrapes > before + 3, "it is read again")
                cap = int((await asked(port)).rpartition(b":")[2])
                assert 50 < cap < 101, "on its way from 101 to 51"

    asyncio.run(scenario())


def test_garbage_on_the_page_changes_nothing() -> None:
    async def scenario() -> None:
        engine = Engine()
        async with serving(engine) as page_port:
            one = agent(page_port)
            async with running(one) as port:
                await eventually(lambda: one.scrapes > 2, "the page is read")
                engine.page = "vllm:num_requests_running NaN\nvllm:kv_cache_usage_perc{ 1e999\n\x00\xff"
                before = one.scrapes
                await eventually(lambda: one.scrapes > before + 3, "the garbage is read")
                assert await asked(port) == b"up 100% maxconn:101\n"

    asyncio.run(scenario())
