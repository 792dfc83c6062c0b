"""Requests in flight over time."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import NamedTuple

import pytest

from lbgen.simulate.load.workload import Bimodal
from lbgen.simulate.runs.series import MARKS, Series
from tests.simulate.runs import run, setup


class FakeServer:
    busy_s = 0.0
    in_flight = 0


class Step(NamedTuple):
    at: float
    level: int


def test_averages_of_a_known_staircase_whatever_the_number_of_marks() -> None:
    dice = Random(1)
    server = FakeServer()
    series = Series([server])  # type: ignore[list-item]
    steps, now, area = [], 0.0, 0.0
    for _ in range(20 * MARKS):
        if now >= series.next_mark:
            series.mark(now)
        change = 1 if server.in_flight == 0 or dice.random() < 0.5 else -1
        server.in_flight += change
        server.busy_s -= change * now
        steps.append(Step(now, server.in_flight))
        now += 0.1
    series.mark(now)
    for before, after in pairwise([*steps, Step(now, 0)]):
        area += before.level * (after.at - before.at)
    (line,) = series.averages(60)
    assert len(line) == 60
    assert sum(line) / 60 == pytest.approx(area / now)
    tenth = [step.level for step in steps[: len(steps) // 10]]
    assert sum(line[:6]) / 6 == pytest.approx(sum(tenth) / len(tenth), rel=0.02)


def test_the_series_of_a_run_agrees_with_its_means() -> None:
    tally = run(setup("round_robin"), Bimodal({}), 20, 3000)
    lines = tally.series.averages(60)
    assert len(lines) == 4
    total = sum(sum(line) / 60 for line in lines)
    mean = tally.e2e.mean()
    assert mean is not None
    assert total == pytest.approx(mean * tally.ok / tally.duration_s, rel=1e-6)  # Little's law


def test_nothing_to_average() -> None:
    assert Series([]).averages(60) == ()
