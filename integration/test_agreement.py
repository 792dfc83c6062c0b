"""What `lbgen simulate` predicts is what the real programs do; `integration.bench_agreement` has all of it.

Only what hardly depends on chance: shares, refusals, medians, and whole answers. Replicas of the prediction
say how much chance there is, and lateness of driver and mocks is allowed for, so that a busy machine fails
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.agreement_runs import QUEUE, Case
from integration.bench_agreement import gaps, measure
from integration.debian import ImageError
from integration.fleets import BETWEEN, ENVOY_PROXIES, ONE_EACH, PROXIES, Proxy
from lbgen.lab.problems import RigError
from lbgen.lab.rig import connect

if TYPE_CHECKING:
    from integration.agreement_runs import Run

pytestmark = pytest.mark.alone

REQUESTS = 300
MUCH_CHANCE = "first token P99"
"""Three requests of 300 decide it."""
STAGES = 4
"""A request waits for the driver and the mock twice each."""


def there(proxy: Proxy) -> Proxy:
    """Return a balancer; the test is skipped, with what is missing, where Docker or its image are not."""
    try:
        connect()
        assert proxy.image
    except (RigError, ImageError) as error:
        pytest.skip(str(error))
    return proxy


def differing(run: Run) -> list[str]:
    """Return what differs by more than chance, the tolerance, and our own lateness."""
    late_s = STAGES * (run.driver_late_s + run.mocks_late_s) * run.speed
    found = [gap._replace(late_s=late_s) for gap in gaps([run], tail=0.0) if gap.what != MUCH_CHANCE]
    return [gap.told for gap in found if not gap.by_chance and not gap.by_lateness]


@pytest.mark.parametrize("proxy", [*ONE_EACH, Proxy(BETWEEN, "envoy")], ids=str)
def test_turns_are_predicted(proxy: Proxy) -> None:
    generation, target = there(proxy)
    assert differing(measure(Case("round_robin", 0.8, target), 1, REQUESTS, generation)) == []


@pytest.mark.parametrize("proxy", [*PROXIES, *ENVOY_PROXIES], ids=str)
def test_full_servers_are_predicted(proxy: Proxy) -> None:
    generation, target = there(proxy)
    run = measure(Case(QUEUE, 0.8, target, slots=4), 1, REQUESTS, generation)
    # HAProxy lets requests wait; the others have no queue and answer 503.
    assert bool(run.measured.errors) is (target != "haproxy")
    assert differing(run) == []
