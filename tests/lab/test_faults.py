"""Faults on command, the record of what was seen, and settings that change while running."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest


async def outcome(lab, **fields):
    try:
        status, body = await lab.complete(**fields)
    except aiohttp.ClientError as error:
        return type(error).__name__
    return status, body.endswith(b"[DONE]\n\n")


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ("status:429", (429, False)), ("reset", "ClientOSError"), ("close", "ServerDisconnectedError"),
        ("garbage", "ClientResponseError"), ("half", "ClientOSError"),
        ("half_close", "ClientPayloadError"), ("reset_after_headers", "ClientOSError"),
        ("slow:0.1", (200, True)),
    ],
)  # fmt: skip
def test_each_fault(with_lab, fault, seen):
    async def ask(lab):
        first = await outcome(lab, stream=True, headers={"x-mock-fault": fault})
        return first, await outcome(lab, stream=True), await lab.get("/mock/state")

    first, second, state = with_lab(ask)
    # A reset shows up as either, depending on whether the client has begun to read.
    assert first in (
        (seen, "ClientPayloadError", "ServerDisconnectedError") if seen == "ClientOSError" else (seen,)
    )
    assert second == (200, True), "the next request is served"
    kind = fault.partition(":")[0]
    assert state["outcomes"] == ({"ok": 2} if kind == "slow" else {f"fault:{kind}": 1, "ok": 1})


def test_a_hang_ends_with_the_client(with_lab):
    async def ask(lab):
        task = asyncio.create_task(lab.complete(headers={"x-mock-fault": "hang"}))
        await asyncio.sleep(0.2)
        assert not task.done()
        task.cancel()
        await asyncio.sleep(0.1)
        return await lab.get("/mock/state")

    assert with_lab(ask)["outcomes"] == {"aborted": 1}


def test_ordered_faults_strike_so_many_requests_of_a_path(with_lab):
    async def ask(lab):
        await lab.command("POST", "faults", kind="status", status=503, count=2, retry_after="3")
        await lab.command("POST", "faults", kind="status", status=500, path="/health")
        codes = [(await lab.complete())[0] for _ in range(3)]
        sick = (await lab.client.get(lab.url + "/health")).status
        await lab.command("DELETE", "faults")
        return codes, sick, (await lab.client.get(lab.url + "/health")).status

    assert with_lab(ask) == ([503, 503, 200], 500, 200)


@pytest.mark.parametrize("fields", [{"kind": "explode"}, {"kind": "hang", "colour": "red"}])
def test_an_unknown_fault_is_refused(with_lab, fields):
    assert with_lab(lambda lab: lab.command("POST", "faults", **fields)) == 400


@pytest.mark.parametrize("fields", [{"engine": "no-such"}, {"profile": "no-such"}, {"colour": "red"}])
def test_an_unknown_setting_is_refused(with_lab, fields):
    assert with_lab(lambda lab: lab.command("POST", "configure", **fields)) == 400


def test_the_record_tells_what_came(with_lab):
    async def ask(lab):
        await lab.complete(headers={"X-Test": "a"}, prompt="x" * 1000, max_tokens=3)
        requests = await lab.get("/mock/requests")
        series = await lab.get("/mock/in_flight")
        await lab.command("POST", "reset")
        return requests, series, await lab.get("/mock/requests")

    (request,), series, after = with_lab(ask)
    assert (request["method"], request["path"], request["outcome"]) == ("POST", "/v1/completions", "ok")
    assert ["x-test", "a"] in request["headers"]
    assert request["body_bytes"] > 1000
    assert request["tokens"] == 3
    assert request["end"] >= request["begin"]
    assert [count for _, count in series] == [0, 1, 0]
    assert after == []


def test_settings_change_while_running(with_lab):
    async def ask(lab):
        await lab.command("POST", "configure", slots=1, speed=20)
        tasks = [asyncio.create_task(lab.complete(max_tokens=500)) for _ in range(2)]
        await asyncio.sleep(0.1)
        state = await lab.get("/mock/state")
        await asyncio.gather(*tasks)
        return state

    state = with_lab(ask, slots=8)
    assert (state["running"], state["waiting"]) == (1, 1)
