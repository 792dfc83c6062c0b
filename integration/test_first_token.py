"""The first token comes at once, and so does every other: nothing on the way holds a stream back.

Direct and proxied requests alternate in the same run, so that a busy machine delays both alike. The mock
sends tokens at a fixed pace; what the proxy adds is the difference between the two medians, and at the tail.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from integration.conftest import renewed
from integration.fleets import THREE, Proxy, chat, files
from integration.http2 import connection, self_signed
from lbgen.lab import load
from lbgen.render import RenderedFile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from lbgen.lab.boxes import Balancer, MockBox
    from lbgen.lab.rig import Rig

    Way = Callable[[load.Planned, float], Awaitable[load.Result]]

pytestmark = pytest.mark.alone

RUNS = 3
PAIRS = 20
SPACING_S = 0.015
TRIES = THREE
MEDIAN_S = 0.005
P99_S = 0.020
TLS_PORT = 8443
FLEET: dict[str, Any] = {
    **chat(),
    "listeners": {
        "plain": {"bind": "*:8080", "routes": [{"pool": "chat"}]},
        "edge": {"bind": f"*:{TLS_PORT}", "tls": {"bundle": "edge.pem"}, "routes": [{"pool": "chat"}]},
    },
}


class Case(NamedTuple):
    """A pace of tokens and the size of a prompt."""

    gap_s: float
    tokens: int
    prompt_bytes: int

    def __str__(self) -> str:
        return f"every-{self.gap_s * 1000:.0f}-ms-prompt-{self.prompt_bytes}"


CASES = (Case(0.01, 10, 100), Case(0.3, 3, 100), Case(0.01, 10, 18_000), Case(0.01, 10, 200_000))


class Lags(NamedTuple):
    """Seconds that the proxy adds."""

    first_median: float
    first_p99: float
    later_median: float
    pieces: float
    """Pieces that arrived, of those sent (1.0: none were put together)."""


class Running(NamedTuple):
    """A balancer that speaks HTTP/1.1 on one port and HTTP/2 on another."""

    proxy: Proxy
    box: Balancer
    certificate: Path


@pytest.fixture(scope="module")
def running(
    module_proxy: Proxy, rig: Rig, running_mocks: list[MockBox], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """One container for all cases."""
    renewed(running_mocks)
    certificate, bundle = self_signed(tmp_path_factory.mktemp("edge"))
    rendered = (*files(FLEET, module_proxy), RenderedFile("edge.pem", bundle))
    box = rig.balancer(module_proxy.target, module_proxy.image, rendered)
    yield Running(module_proxy, box, certificate)
    box.remove()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tokens_are_not_held_back(
    case: Case, running: Running, mocks: list[MockBox], measured: Callable[..., None]
) -> None:
    runs = [asyncio.run(_run(mocks[0].url, running.box.url, case)) for _ in range(RUNS)]
    _judge(runs, str(case), running.proxy, measured)


@pytest.mark.parametrize("case", [CASES[0], CASES[-1]], ids=str)
def test_tokens_are_not_held_back_over_http2(
    case: Case, running: Running, mocks: list[MockBox], measured: Callable[..., None]
) -> None:
    place = running.box.address, running.certificate
    runs = [asyncio.run(_run_http2(mocks[0].url, *place, case)) for _ in range(RUNS)]
    _judge(runs, f"{case}-http2", running.proxy, measured)


def _judge(runs: list[Lags], name: str, proxy: Proxy, measured: Callable[..., None]) -> None:
    lags = Lags(*(median(values) for values in zip(*runs, strict=True)))
    measured(
        f"What the proxy adds to the first token, in ms: {name}", proxy,
        median=milliseconds(lags.first_median), p99=milliseconds(lags.first_p99),
        later_tokens_median=milliseconds(lags.later_median),
    )  # fmt: skip
    assert lags.first_median <= MEDIAN_S, lags
    assert lags.first_p99 <= P99_S, lags
    assert lags.later_median <= MEDIAN_S, lags
    assert lags.pieces >= 0.9, lags


async def _run(direct: str, proxied: str, case: Case) -> Lags:
    async with load.session() as client:
        ways = (partial(load.send, client, direct), partial(load.send, client, proxied))
        return await _alternate(ways, case)


async def _run_http2(direct: str, address: str, certificate: Path, case: Case) -> Lags:
    async with load.session() as client, connection(address, TLS_PORT, certificate) as http2:
        return await _alternate((partial(load.send, client, direct), http2.send), case)


async def _alternate(ways: tuple[Way, Way], case: Case) -> Lags:
    """Send requests directly and through the proxy by turns."""
    headers = {"x-mock-pace": f"0.03,{case.gap_s}"}
    prompt = "slow " * (case.prompt_bytes // 5)
    begin = time.monotonic()

    async def one(index: int) -> load.Result:
        planned = load.Planned(index * SPACING_S, case.tokens, prompt, headers=headers)
        await asyncio.sleep(begin + planned.at_s - time.monotonic())
        return await ways[index % 2](planned, begin)

    results = await asyncio.gather(*(one(index) for index in range(2 * PAIRS)))
    assert all(result.ok for result in results), results
    return _lags(results[::2], results[1::2], case)


def _lags(direct: list[load.Result], proxied: list[load.Result], case: Case) -> Lags:
    usual = [median(_arrivals(direct, token)) for token in range(case.tokens)]
    later = [when - usual[token] for token in range(1, case.tokens) for when in _arrivals(proxied, token)]
    pieces = sum(min(len(result.arrivals), case.tokens) for result in proxied)
    sent = sum(min(len(result.arrivals), case.tokens) for result in direct)
    first, first_direct = _arrivals(proxied, 0), _arrivals(direct, 0)
    return Lags(
        median(first) - usual[0],
        load.percentile(first, 0.99) - load.percentile(first_direct, 0.99),
        median(later),
        pieces / sent,
    )


def milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _arrivals(results: list[load.Result], token: int) -> list[float]:
    """Return when the piece with a token came; where pieces travelled together, the last one."""
    return [result.arrivals[min(token, len(result.arrivals) - 1)] - result.started_s for result in results]
