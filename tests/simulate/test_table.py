"""What is true of the seed workload: the published figures, within 5 % or their confidence interval."""

from __future__ import annotations

import os

import pytest

from lbgen.simulate.load.workload import Bimodal
from lbgen.simulate.runs.statistics import interval
from lbgen.simulate.servers.step_times.profiles import PROFILES, Profile
from tests.simulate.runs import run, setup

SEED = PROFILES["seed"]
BIMODAL = Bimodal({})
WAYS = ("round_robin", "random_two", "least_conn", "central queue")
P50, P99, WAIT, SPREAD = range(4)
TABLE = {
    0.5: {
        P50: (0.61, 0.61, 0.61, 0.61), P99: (15.51, 15.46, 15.45, 15.45), WAIT: (0, 0, 0, 0),
        SPREAD: (2.53, 1.00, 0.59, 0.59),
    },
    0.8: {
        P50: (0.68, 0.65, 0.65, 0.65), P99: (16.55, 16.44, 16.44, 16.44), WAIT: (1.28, 0, 0, 0),
        SPREAD: (3.69, 1.03, 0.60, 0.60),
    },
    0.9: {
        P50: (0.83, 0.70, 0.70, 0.70), P99: (17.34, 16.84, 16.83, 16.83), WAIT: (3.87, 0.94, 0.88, 0.79),
        SPREAD: (6.52, 1.06, 0.60, 0.53),
    },
    0.95: {
        P50: (2.34, 0.85, 0.84, 0.85), P99: (20.57, 17.24, 17.20, 17.21), WAIT: (8.96, 2.19, 2.13, 1.72),
        SPREAD: (15.3, 1.10, 0.61, 0.36),
    },
}  # fmt: skip


def measured(
    way: str, load: float, count: int, profile: Profile = SEED, seeds: range = range(1, 4)
) -> list[list[float]]:
    """P50, P99, P99 wait and spread of each seed."""
    strategy, cap = ("least_conn", profile.slots) if way == "central queue" else (way, None)
    full = profile.step + profile.per_request * profile.slots
    rate = load * 4 * profile.slots / (full * 417)
    figures = []
    for seed in seeds:
        tally = run(setup(strategy, profile=profile, cap=cap), BIMODAL, rate, count, seed)
        values = [*tally.e2e.at(0.5, 0.99), *tally.wait.at(0.99), tally.load_stdev()]
        figures.append([value or 0.0 for value in values])
    return figures


def compare(load: float, count: int) -> None:
    for column, way in enumerate(WAYS):
        for metric, values in enumerate(zip(*measured(way, load, count), strict=True)):
            published = TABLE[load][metric][column]
            mean, half = interval(values)
            # A wait printed as 0 is below a hundredth of a second on most seeds: a step or two.
            allowed = max(0.05 * published, half or 0.0, 0.02)
            assert abs(mean - published) <= allowed, (way, metric, mean, published, allowed)


FULL = 40_000
SIZES = {0.5: 15_000, 0.8: 15_000, 0.9: 15_000, 0.95: FULL}
"""Enough requests for each row; the full size is the row's on which the strategies differ most, or all's."""


@pytest.mark.slow
@pytest.mark.parametrize("load", TABLE)
def test_the_published_table(load: float) -> None:
    compare(load, FULL if os.environ.get("LBGEN_ALL") else SIZES[load])


def test_with_four_slots_the_strategy_decides() -> None:
    """The published 28.0 and 19.4 s at a load of 0.8 are those of a step of 8.8 ms whatever the batch.

    With 7.2 + 0.05 n ms the longest answer is 15 s in place of 18, and the figures are 23.4 and 15.9 s; what
    matters is the same: least connections take 0.68 of what round robin takes.
    """
    constant = SEED._replace(step=0.0088, per_request=0.0, slots=4)
    means = {}
    for way, published in (("round_robin", 28.0), ("least_conn", 19.4)):
        mean, half = interval([figures[P99] for figures in measured(way, 0.8, 20_000, constant)])
        assert abs(mean - published) <= max(0.05 * published, half or 0.0)
        means[way] = mean
    ours = {way: measured(way, 0.8, 20_000, SEED.with_slots(4), range(1, 2))[0][P99] for way in means}
    assert means["least_conn"] < 0.75 * means["round_robin"]
    assert ours["least_conn"] < 0.75 * ours["round_robin"]


def test_balancers_side_by_side_count_apart() -> None:
    """At a load of 0.9: eight with local counts cost something, counts that are 2 s old cost everything."""
    rate = 0.9 * 4 * 32 / (0.0088 * 417)
    waits = {}
    for name, values in (("one", {}), ("eight", {"balancers": 8}), ("stale", {"stale_s": 2.0})):
        tally = run(setup("least_conn", **values), BIMODAL, rate, 20_000)
        waits[name] = tally.wait.at(0.99)[0] or 0.0
    turns = run(setup("round_robin"), BIMODAL, rate, 20_000).wait.at(0.99)[0] or 0.0
    assert waits["one"] < waits["eight"] < 0.7 * turns
    assert waits["stale"] > turns


def test_a_slow_server_needs_less_weight_under_round_robin() -> None:
    """One half-speed server of four, load 0.7: round robin drowns it, least connections do not."""
    slow = SEED._replace(step=SEED.step * 2, per_request=SEED.per_request * 2)
    waits = {}
    for name, strategy, weights in (
        ("turns", "round_robin", (1, 1)), ("weighted", "round_robin", (1, 2)),
        ("counts", "least_conn", (1, 1)),
    ):  # fmt: skip
        made = setup(strategy)
        servers = tuple(
            server._replace(profile=slow if index == 0 else SEED, weight=weights[0 if index == 0 else 1])
            for index, server in enumerate(made.servers)
        )
        rate = 0.7 * 3.5 * 32 / (0.0088 * 417)
        waits[name] = run(made._replace(servers=servers), BIMODAL, rate, 20_000).e2e.at(0.99)[0] or 0.0
    assert waits["turns"] > 5 * waits["counts"]
    assert waits["weighted"] < waits["turns"] / 5
