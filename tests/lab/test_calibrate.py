"""Probing an engine whose speed is known."""

from __future__ import annotations

import asyncio
import json

import pytest

from lbgen.lab.calibrate import Limits, Probing
from lbgen.problems import LbgenError
from lbgen.simulate.servers.step_times.fit import fitted
from lbgen.simulate.servers.step_times.profiles import PROFILES


def probing(url, **limits):
    values = {"in_flight": 8, "prompt_tokens": 2000, "seconds": 60.0} | limits
    return Probing(url, None, {}, Limits(**values), lambda _: None)


def test_it_finds_what_the_mock_was_told(with_lab):
    """Wide bounds: the machine may be busy, and the mock waits on a clock of its own."""
    truth = PROFILES["plain-prompts"]._replace(slots=4)
    probes = with_lab(lambda lab: probing(lab.url).run(), speed=1.0, profile="plain-prompts", slots=4)
    found = fitted(probes, PROFILES["h100-8b"])
    assert found.slots == 4
    assert found.prefix_cache is True
    assert truth.step * 0.7 < found.step < truth.step * 2
    assert truth.per_prefill_token * 0.7 < found.per_prefill_token < truth.per_prefill_token * 2
    assert [one.in_flight for one in probes.batches] == [1, 2, 4]
    assert probes.prompts[-1].tokens == pytest.approx(2000, rel=0.1)


def test_progress_counts_up_to_all_measurements(with_lab):
    seen = []

    async def run(lab):
        one = probing(lab.url, in_flight=2, prompt_tokens=100)
        one.progress = lambda done, total: seen.append((done, total))
        await one.run()

    with_lab(run)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[0] == (0, 7), "two sizes of batches, four prompts, long prompts together"
    assert seen[-1] == (6, 7), "the last one ends the command"


def test_the_time_limit_leaves_what_was_measured(with_lab):
    async def run(lab):
        one = probing(lab.url, seconds=0.0)
        return await one.run(), one.stopped

    probes, stopped = with_lab(run)
    assert stopped
    assert len(probes.batches) == 1
    assert (probes.prompts, probes.deep, probes.slots) == ((), (), None)


def test_prompts_that_are_refused_end_the_longer_ones(with_lab):
    async def run(lab):
        one = probing(lab.url, in_flight=1)
        send = one._ask

        async def ask(prompt, tokens, *, may_fail=False):
            words = prompt if isinstance(prompt, int) else prompt.count(" ") + 1
            return None if may_fail and words > 500 else await send(prompt, tokens, may_fail=may_fail)

        one._ask = ask
        return await one.run()

    assert 1 <= len(with_lab(run).prompts) < 4


@pytest.mark.parametrize("path", ["/v1/models", "/v1/completions"])
@pytest.mark.parametrize(
    ("fault", "says"), [({"kind": "status", "status": 503}, "returned 503"), ({"kind": "reset"}, "")]
)
def test_an_engine_that_fails_is_named(with_lab, fault, says, path):
    async def run(lab):
        await lab.command("POST", "faults", path=path, **fault)
        return await probing(lab.url).run()

    with pytest.raises(LbgenError, match=rf"127\.0\.0\.1.*{says}"):
        with_lab(run)


def test_an_engine_that_closes_kept_connections():
    """As llama.cpp's does after 5 s or 100 requests: a request may be on its way just then."""

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        size = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if b"content-length" in line]
        await reader.readexactly(int(size[0]) if size else 0)
        if head.startswith(b"GET"):
            body = json.dumps({"data": [{"id": "tiny"}]}).encode()
        else:
            body = b"".join(b'data: {"choices": [{"text": "x"}]}\n\n' for _ in range(2)) + b"data: [DONE]\n\n"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await reader.read(1)  # the next request, or the client's end
        writer.close()

    async def run():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            one = probing(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", in_flight=1)
            await one.run()
            return one.cost.requests

    assert asyncio.run(run()) > 10


def test_nobody_there():
    with pytest.raises(LbgenError, match="give --model"):
        asyncio.run(probing("http://127.0.0.1:1").run())
