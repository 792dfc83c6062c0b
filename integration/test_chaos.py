"""Servers die, freeze, answer garbage, break off and flap while requests come: nothing fails that need not.

What may fail: what was in flight on a server when it was killed, and what a server was told to spoil. The
disturbances come from a seed, which a failure prints.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any

from integration.fleets import Proxy, chat
from integration.waiting import eventually
from lbgen.lab import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from integration.conftest import Start
    from lbgen.lab.boxes import Balancer, MockBox

SEED = 20260
DISTURBANCES = 8
PARALLEL = 12
POOL: dict[str, Any] = {
    "health": {"interval": "1s", "timeout": "1s", "rise": 1, "fall": 2},
    "passive_health": {"failures": 1, "window": "2s", "eject": "2s"},
}
PACE = {"x-mock-pace": "0.1,0.05"}
SPOILED = 3


def _crash(mock: MockBox) -> int:
    in_flight = int(mock.state()["in_flight"])
    mock.crash()
    time.sleep(0.5)
    mock.start()
    return in_flight + 2  # between counting and killing, requests still come and go


def _freeze(mock: MockBox) -> int:
    mock.freeze()
    time.sleep(1.0)
    mock.thaw()
    return 0


def _flap(mock: MockBox) -> int:
    for _ in range(3):
        mock.fault("status", path="/health", status=503)
        time.sleep(0.3)
        mock.heal()
        time.sleep(0.3)
    return 0


def _spoil(kind: str) -> Callable[[MockBox], int]:
    def spoil(mock: MockBox) -> int:
        mock.fault(kind, count=SPOILED)
        time.sleep(1.0)
        mock.heal()
        return SPOILED

    return spoil


KINDS: dict[str, Callable[[MockBox], int]] = {
    "crash": _crash, "freeze": _freeze, "flap": _flap,
    "garbage": _spoil("garbage"), "half": _spoil("half"), "reset": _spoil("reset"),
}  # fmt: skip
"""Each disturbs one server, and returns how many requests it may cost."""


def test_nothing_fails_that_need_not(
    proxy: Proxy, mocks: list[MockBox], start: Start, measured: Callable[..., None]
) -> None:
    dice = random.Random(SEED)
    plan = [(name, dice.choice(mocks)) for name in KINDS] + [
        (dice.choice(list(KINDS)), dice.choice(mocks)) for _ in range(DISTURBANCES - len(KINDS))
    ]
    with start(chat(**POOL), proxy) as balancer:
        warm = asyncio.run(load.burst(balancer.url, [load.Planned(0, 3, headers=PACE)] * PARALLEL))
        assert all(result.ok for result in warm), warm
        before = balancer.descriptors()
        results, allowed = asyncio.run(_disturbed(balancer, plan))
        failed = [result for result in results if not result.ok]
        measured(
            f"Chaos with seed {SEED}",
            proxy,
            requests=len(results),
            failed=len(failed),
            may_have_failed=allowed,
        )
        assert len(results) > 100
        how = [(one.status, one.error) for one in failed]
        assert len(failed) <= allowed, (SEED, [name for name, _ in plan], how)
        eventually(
            lambda: all(mock.state()["in_flight"] == 0 for mock in mocks), 5, "counters return to zero"
        )
        eventually(lambda: balancer.descriptors() <= before + 8, 15, "descriptors are given back")


async def _disturbed(balancer: Balancer, plan: list[tuple[str, MockBox]]) -> tuple[list[load.Result], int]:
    """Keep requests in flight while the plan is carried out; return results and how many may have failed."""
    done = False

    def requests() -> Iterator[load.Planned]:
        while not done:
            yield load.Planned(0, 5, headers=PACE)

    running = asyncio.create_task(load.closed(balancer.url, requests(), PARALLEL, fresh=True))
    await asyncio.sleep(1)
    allowed = 0
    for name, mock in plan:
        allowed += await asyncio.get_running_loop().run_in_executor(None, KINDS[name], mock)
        await asyncio.sleep(0.5)
    done = True
    return await running, allowed
