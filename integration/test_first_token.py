"""The first token comes at once, and so does every other: nothing on the way holds a stream back.

Direct and proxied requests alternate in the same run, so that a busy machine delays both alike. The mock
sends tokens at a fixed pace; what the proxy adds is the difference between the two medians, and at the tail.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import pytest

from integration.fleets import Proxy, chat
from lbgen.lab import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration.conftest import Start
    from lbgen.lab.boxes import MockBox

RUNS = 5
PAIRS = 20
SPACING_S = 0.015
MEDIAN_S = 0.005
P99_S = 0.020


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


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tokens_are_not_held_back(
    case: Case, proxy: Proxy, mocks: list[MockBox], start: Start, measured: Callable[..., None]
) -> None:
    with start(chat(), proxy) as balancer:
        runs = [asyncio.run(_run(mocks[0].url, balancer.url, case)) for _ in range(RUNS)]
    lags = Lags(*(median(values) for values in zip(*runs, strict=True)))
    measured(
        f"What the proxy adds to the first token, in ms: {case}", proxy,
        median=milliseconds(lags.first_median), p99=milliseconds(lags.first_p99),
        later_tokens_median=milliseconds(lags.later_median),
    )  # fmt: skip
    assert lags.first_median <= MEDIAN_S, lags
    assert lags.first_p99 <= P99_S, lags
    assert lags.later_median <= MEDIAN_S, lags
    assert lags.pieces >= 0.9, lags


async def _run(direct: str, proxied: str, case: Case) -> Lags:
    headers = {"x-mock-pace": f"0.03,{case.gap_s}"}
    prompt = "slow " * (case.prompt_bytes // 5)
    async with load.session() as client:
        begin = time.monotonic()

        async def one(index: int) -> load.Result:
            planned = load.Planned(index * SPACING_S, case.tokens, prompt, headers=headers)
            await asyncio.sleep(begin + planned.at_s - time.monotonic())
            return await load.send(client, (direct, proxied)[index % 2], planned, begin)

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
