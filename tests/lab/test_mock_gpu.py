"""The mock GPU server speaks the OpenAI API, at the pace of the simulator's engine."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from typing import Any

import pytest

from lbgen.agent.readings import read_page
from lbgen.engines import ENGINES
from lbgen.lab import load
from lbgen.lab.mock import mock_gpu
from lbgen.lab.mock.engine_metrics import NAMES


def events(body: bytes) -> list[Any]:
    lines = [line[6:] for line in body.decode().split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_whole_answer(with_lab):
    status, body = with_lab(lambda lab: lab.complete(max_tokens=12))
    answer = json.loads(body)
    assert status == 200
    assert answer["object"] == "text_completion"
    assert answer["usage"]["completion_tokens"] == 12
    assert len(answer["choices"][0]["text"].split()) == 12
    assert answer["choices"][0]["finish_reason"] == "length"


def test_stream_has_every_token_once(with_lab):
    _, body = with_lab(
        lambda lab: lab.complete(max_tokens=50, stream=True, stream_options={"include_usage": True}),
        chunk_s=0.0,
    )
    *chunks, usage = events(body)
    text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
    assert len(text.split()) == 50
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 50


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_chat_stream(with_lab, field):
    async def ask(lab):
        body = {"messages": [{"role": "user", "content": "hi"}], "stream": True, field: 9, "model": "llama"}
        async with lab.client.post(f"{lab.url}/v1/chat/completions", json=body) as answer:
            assert answer.headers["x-mock-server"] == "gpu-0"
            assert answer.content_type == "text/event-stream"
            return await answer.read()

    chunks = events(with_lab(ask))
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert "role" not in chunks[-1]["choices"][0]["delta"] or len(chunks) == 1
    assert sum(len(chunk["choices"][0]["delta"]["content"].split()) for chunk in chunks) == 9
    assert {chunk["model"] for chunk in chunks} == {"llama"}


@pytest.mark.parametrize("body", [b"no json", b"[]", b"{}", b'{"prompt": "a", "max_tokens": 0}'])
def test_a_bad_request_is_refused(with_lab, body):
    async def ask(lab):
        async with lab.client.post(f"{lab.url}/v1/completions", data=body) as answer:
            return answer.status, json.loads(await answer.read())

    status, answer = with_lab(ask)
    assert status == 400
    assert answer["error"]["type"] == "invalid_request_error"


def test_time_is_the_engines(with_lab):
    async def ask(lab):
        begin = time.monotonic()
        await lab.complete(max_tokens=1000)
        return time.monotonic() - begin

    # 1000 steps of 7.25 ms are 7.25 virtual seconds.
    assert 0.72 <= with_lab(ask, speed=10) <= 1.5


def test_requests_beyond_the_slots_wait(with_lab):
    async def ask(lab):
        tasks = [asyncio.create_task(lab.complete(max_tokens=2000)) for _ in range(3)]
        await asyncio.sleep(0.1)
        text = (await (await lab.client.get(lab.url + "/metrics")).read()).decode()
        state = await lab.get("/mock/state")
        await asyncio.gather(*tasks)
        return text, state

    text, state = with_lab(ask, slots=2, speed=20)
    assert 'vllm:num_requests_running{model_name="mock"} 2' in text
    assert 'vllm:num_requests_waiting{model_name="mock"} 1' in text
    assert (state["in_flight"], state["running"], state["waiting"]) == (3, 2, 1)


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_slot(with_lab, stream):
    async def ask(lab):
        task = asyncio.create_task(lab.complete(max_tokens=100_000, stream=stream))
        await asyncio.sleep(0.2)
        before = await lab.get("/mock/state")
        task.cancel()
        await asyncio.sleep(0.1)
        return before, await lab.get("/mock/state")

    before, after = with_lab(ask, speed=1)
    assert before["running"] == 1
    assert (after["in_flight"], after["running"], after["outcomes"]) == (0, 0, {"aborted": 1})


def test_health_while_loading(with_lab):
    async def ask(lab):
        first = (await lab.client.get(lab.url + "/health")).status
        await asyncio.sleep(0.3)
        return first, (await lab.client.get(lab.url + "/health")).status

    assert with_lab(ask, load_s=0.2) == (503, 200)


@pytest.mark.parametrize(
    ("engine", "name"), [("sglang", "sglang:num_running_reqs"), ("tgi", "tgi_batch_current_size"),
                         ("llamacpp", "llamacpp:requests_processing")],
)  # fmt: skip
def test_metric_names_of_other_engines(with_lab, engine, name):
    async def ask(lab):
        return (await (await lab.client.get(lab.url + "/metrics")).read()).decode()

    assert f"\n{name}" in with_lab(ask, engine=engine)


def test_a_given_pace(with_lab):
    async def ask(lab):
        begin = time.monotonic()
        body = {"prompt": "hi", "max_tokens": 4, "stream": True}
        async with lab.client.post(
            f"{lab.url}/v1/completions", json=body, headers={"x-mock-pace": "0.2,0.1"}
        ) as answer:
            return [time.monotonic() - begin async for _ in answer.content.iter_any()]

    arrivals = with_lab(ask)
    assert len(arrivals) >= 4
    for seen, wanted in zip(arrivals, (0.2, 0.3, 0.4, 0.5), strict=False):
        assert wanted <= seen + 0.001 <= wanted + 0.15


def test_idle_connections_are_closed(with_lab):
    async def ask(lab):
        reader, writer = await asyncio.open_connection("127.0.0.1", lab.port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        begin = time.monotonic()
        await reader.read()
        writer.close()
        return time.monotonic() - begin

    assert 0.3 <= with_lab(ask, keep_alive_s=0.3) <= 2


def test_requests_on_one_connection_and_a_broken_one(with_lab):
    async def ask(lab):
        reader, writer = await asyncio.open_connection("127.0.0.1", lab.port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.sleep(0.2)
        writer.write(b"nonsense\r\n\r\n")
        text = await reader.read()
        writer.close()
        return text

    text = with_lab(ask)
    assert text.count(b"HTTP/1.1 200") == 2
    assert b'"id": "mock"' in text


def test_a_taken_port_is_said(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert mock_gpu.main(["--host", "127.0.0.1", "--port", str(port)]) == 2
    assert capsys.readouterr().err.startswith("mock-gpu: ")


def test_tokens_that_come_late_are_told(with_lab):
    async def ask(lab):
        calm = (await lab.get("/mock/state"))["late_p99_s"]
        task = asyncio.create_task(lab.complete(max_tokens=40))
        asyncio.get_running_loop().call_later(0.1, time.sleep, 0.4)
        await task
        return calm, (await lab.get("/mock/state"))["late_p99_s"]

    calm, late = with_lab(ask, speed=1)
    assert calm is None
    assert late > 0.1


@pytest.mark.parametrize("engine", sorted(NAMES))
def test_the_agent_reads_each_engines_page(with_lab, engine):
    async def ask(lab):
        tasks = [asyncio.create_task(lab.complete(max_tokens=3000, stream=True)) for _ in range(3)]
        await asyncio.sleep(0.2)
        page = await (await lab.client.get(lab.url + "/metrics")).read()
        for task in tasks:
            task.cancel()
        return page

    reading = read_page(with_lab(ask, engine=engine, slots=2, speed=1.0), ENGINES[engine].metrics)
    assert (reading.running, reading.waiting) == (2, 1)
    assert (reading.kv_usage is None) == (engine == "tgi"), "TGI does not tell it"


def test_a_thousand_streams_at_once(with_lab):
    mock_gpu.raise_descriptor_limit()

    async def ask(lab):
        results = await load.burst(lab.url, [load.Planned(0, 30)] * 1000)
        return results, await lab.get("/mock/state")

    results, state = with_lab(ask, profile="h100-8b", slots=2000, speed=1.0, chunk_s=0.25)
    assert [result.error or result.status for result in results if not result.ok] == []
    assert (state["outcomes"], state["generated_tokens"]) == ({"ok": 1000}, 30_000)
    assert state["most_in_flight"] > 500


def test_it_names_the_sessions_that_have_no_name(with_lab):
    planned = [load.Planned(0, 1), load.Planned(0, 1), load.Planned(0, 1, headers={"x-s": "mine"})]
    results = with_lab(lambda lab: load.run(lab.url, planned), names_sessions="X-S")
    names = [result.headers.get("X-S") for result in results]
    assert all(names[:2])
    assert names[0] != names[1]
    assert names[2] is None


def test_it_runs_where_h11_alone_is_installed():
    without = "import sys; sys.modules |= dict.fromkeys(('yaml', 'aiohttp', 'click', 'docker', 'jinja2'))"
    code = f"{without}; import lbgen.lab.mock.mock_gpu, lbgen.lab.trial.stage.farm"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("engine", [name for name, one in ENGINES.items() if one.health_path])
def test_every_engines_health_path_is_answered(with_lab, engine):
    async def ask(lab):
        return (await lab.client.get(lab.url + ENGINES[engine].health_path)).status

    assert with_lab(ask) == 200, "a trial's balancer would take it out"
