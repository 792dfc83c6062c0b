"""A long silence is no failure: first bytes and gaps that last longer than usual proxies wait for."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from integration.fleets import EVERY, THREE, Proxy, chat
from lbgen.lab import load

if TYPE_CHECKING:
    from integration.conftest import Start
    from lbgen.lab.boxes import Balancer

TRIES = THREE

pytestmark = pytest.mark.slow

SHORT: dict[str, Any] = {"timeouts": {"first_byte": "3s", "idle": "3s"}}


def answers(url: str, *paces: str, stream: bool = True) -> list[load.Result]:
    """Return the answers to requests for three tokens, each at a pace, sent together."""
    planned = [load.Planned(0, 3, stream=stream, headers={"x-mock-pace": pace}) for pace in paces]
    return asyncio.run(load.burst(url, planned))


@pytest.mark.usefixtures("mocks")
def test_silence_within_the_timeouts_is_kept(proxy: Proxy, start: Start) -> None:
    with start(chat(**SHORT), proxy) as balancer:
        assert all(result.ok for result in answers(balancer.url, "2,0.1", "0.1,2"))
        assert all(result.status == 200 for result in answers(balancer.url, "2.2,0", stream=False))


@pytest.mark.usefixtures("mocks")
def test_silence_beyond_the_timeouts_ends_as_said(proxy: Proxy, start: Start) -> None:
    with start(chat(**SHORT), proxy) as balancer:
        whole, cut = answers(balancer.url, "5,0", stream=False), answers(balancer.url, "0.1,5")
    assert [result.status for result in whole] == [504]
    assert 2.5 <= whole[0].ended_s <= 4.5
    assert cut[0].status == 200
    assert not cut[0].ok
    assert 2.5 <= cut[0].ended_s <= 4.5


@pytest.mark.skipif(
    not (os.environ.get("LBGEN_SLOW") or os.environ.get("LBGEN_NO_SKIP")),
    reason="takes 70 seconds: LBGEN_SLOW=1",
)
@pytest.mark.usefixtures("mocks")
def test_more_than_a_minute_of_silence_survives_the_defaults(start: Start) -> None:
    silent = load.Planned(0, 1, stream=False, headers={"x-mock-pace": "65,0"})
    gap = load.Planned(0, 2, headers={"x-mock-pace": "0.1,65"})

    async def everywhere(balancers: list[Balancer]) -> list[list[load.Result]]:
        return await asyncio.gather(*(load.burst(balancer.url, [silent, gap]) for balancer in balancers))

    with ExitStack() as stack:
        balancers = [stack.enter_context(start(chat(), proxy)) for proxy in EVERY]
        results = asyncio.run(everywhere(balancers))
    for proxy, (waited, streamed) in zip(EVERY, results, strict=True):
        assert waited.status == 200, (proxy, waited)
        assert waited.ended_s > 60
        assert streamed.ok, (proxy, streamed)
