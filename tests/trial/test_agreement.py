"""When a prediction and a measurement agree."""

from __future__ import annotations

import pytest

from lbgen.lab.trial.results.agreement import Gap, gaps, luck, slack_s
from lbgen.simulate.load.workload import Bimodal
from lbgen.simulate.runs.result import Figures, ServerFigures, Spread
from lbgen.simulate.runs.run import Task, run
from lbgen.simulate.servers.setup import ServerSetup, Setup
from lbgen.simulate.servers.step_times.profiles import PROFILES


def figures(first_p99: float, shares: tuple[int, int] = (50, 50), ok: int = 100) -> Figures:
    first, whole = Spread(p50=0.01, p99=first_p99), Spread(p50=1.0, p99=10.0)
    servers = tuple(ServerFigures(f"gpu-{index}", count, 1.0, 2) for index, count in enumerate(shares))
    return Figures(100, ok, {}, 10.0, first, whole, Spread(), None, None, None, servers)


def found(gaps: list[Gap], what: str) -> Gap:
    return next(gap for gap in gaps if gap.what == what)


@pytest.mark.parametrize(
    ("measured", "agrees"), [(1.0, True), (1.149, True), (0.851, True), (1.16, False), (0.84, False)]
)
def test_latencies_agree_within_15_percent(measured: float, agrees: bool) -> None:
    assert found(gaps(figures(1.0), figures(measured), 0.02), "first token P99").agrees is agrees


def test_short_latencies_agree_within_two_steps_and_5_ms_of_the_clock() -> None:
    slack = slack_s(0.009, speed=4.0)
    assert slack == pytest.approx(0.018 + 0.020)
    assert found(gaps(figures(0.017), figures(0.054), slack), "first token P99").agrees
    assert not found(gaps(figures(0.017), figures(0.056), slack), "first token P99").agrees


def test_shares_and_refusals_agree_within_5_points() -> None:
    apart = gaps(figures(1.0), figures(1.0, shares=(56, 44), ok=94), 0.0)
    assert [gap.what for gap in apart if not gap.agrees] == ["refused", "share of gpu-0", "share of gpu-1"]
    near = gaps(figures(1.0), figures(1.0, shares=(54, 46), ok=96), 0.0)
    assert all(gap.agrees for gap in near)


def test_chance_is_what_replicas_of_the_prediction_reach() -> None:
    replicas = [figures(value) for value in (0.8, 1.0, 1.5)]
    inside = found(gaps(figures(1.0), figures(1.6), 0.0, replicas), "first token P99")
    outside = found(gaps(figures(1.0), figures(1.7), 0.0, replicas), "first token P99")
    assert (inside.agrees, inside.by_chance) == (False, True)
    assert (outside.agrees, outside.by_chance) == (False, False)
    assert outside.told == "first token P99 measured 1.70 s, predicted 1.00 s (0.80 s to 1.50 s by chance)"


def test_the_ends_of_a_band_can_be_left_out() -> None:
    replicas = [figures(float(value)) for value in range(100)]
    assert found(gaps(figures(1.0), figures(1.0), 0.0, replicas, tail=0.01), "first token P99").chance == (
        1,
        98,
    )


def test_what_our_own_lateness_accounts_for_is_told_as_such() -> None:
    gap = found(gaps(figures(0.02), figures(0.105), 0.05), "first token P99")._replace(late_s=0.03)
    assert (gap.agrees, gap.by_lateness) == (False, False)
    gap = gap._replace(late_s=0.04)
    assert gap.by_lateness
    assert not gap._replace(measured=0.0).by_lateness  # nobody is early by being late
    share = found(gaps(figures(1.0), figures(1.0, shares=(90, 10)), 0.0), "share of gpu-0")
    assert not share._replace(late_s=10.0).by_lateness


def test_without_replicas_nothing_is_chance() -> None:
    assert not found(gaps(figures(1.0), figures(1.5), 0.0), "first token P99").by_chance


def test_luck_moves_the_prediction_of_a_busy_round_robin() -> None:
    setup = Setup(servers=tuple(ServerSetup(f"gpu-{n}", PROFILES["seed"]) for n in range(4)),
                  strategy="round_robin")  # fmt: skip
    task = Task(setup, Bimodal({}), 0.9 * 34.9, 600, 1)
    firsts = {one.ttft_s.p99 for one in luck(task, speed=4.0)}
    assert len(firsts) > 10
    assert min(firsts) < (run(task).ttft_s.p99 or 0) * 1.5


def test_hits_agree_within_three_points() -> None:
    def hits(share: float | None) -> Figures:
        return figures(1.0)._replace(prefix_hit_ratio=share)

    what = "prompt tokens from prefix caches"
    assert found(gaps(hits(0.80), hits(0.825), 0.0), what).agrees
    assert not found(gaps(hits(0.80), hits(0.84), 0.0), what).agrees
    assert not any(gap.what == what for gap in gaps(hits(None), hits(0.84), 0.0))
