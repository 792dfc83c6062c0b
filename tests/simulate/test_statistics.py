"""Quantiles in bounded memory, and intervals."""

from __future__ import annotations

from random import Random

import pytest

from lbgen.simulate.runs import statistics
from lbgen.simulate.runs.statistics import RELATIVE_ERROR, Quantiles, interval, student


def filled(values: list[float]) -> Quantiles:
    made = Quantiles()
    for value in values:
        made.add(value)
    return made


def test_quantiles_are_exact_for_what_fits() -> None:
    made = filled([float(value) for value in range(100, 0, -1)])
    assert made.at(0.01, 0.5, 0.99, 1.0) == [1, 50, 99, 100]
    assert made.mean() == pytest.approx(50.5)


def test_nothing_has_no_quantiles() -> None:
    assert Quantiles().at(0.5) == [None]
    assert Quantiles().mean() is None


def test_beyond_the_limit_quantiles_keep_their_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "EXACT", 1_000)
    dice = Random(1)
    values = [dice.lognormvariate(0, 2) for _ in range(20_000)] + [0.0] * 100
    dice.shuffle(values)
    made, kept = Quantiles(), 0
    for number, value in enumerate(values):
        made.add(value)
        if not number % 500:
            made.settle()
            kept = max(kept, len(made._values))
    assert kept <= 1_000
    exact = sorted(values)
    for share in (0.001, 0.01, 0.5, 0.9, 0.99, 0.999):
        expected = exact[round(share * len(values)) - 1]
        assert made.at(share)[0] == pytest.approx(expected, rel=1.01 * RELATIVE_ERROR, abs=1e-9)
    assert made.mean() == pytest.approx(sum(values) / len(values))
    assert made.count == len(values)


def test_an_interval_needs_more_than_one_run() -> None:
    assert interval([3.0]) == (3.0, None)
    assert not interval([3.0]).certain
    mean, half = interval([1.0, 2.0, 3.0])
    assert (mean, half) == (2.0, pytest.approx(2.484, abs=0.001))


@pytest.mark.parametrize(
    ("freedom", "table"),
    [(1, 12.706), (4, 2.776), (10, 2.228), (11, 2.201), (15, 2.131), (30, 2.042), (120, 1.980)],
)
def test_students_t(freedom: int, table: float) -> None:
    assert student(freedom) == pytest.approx(table, rel=0.002)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.3027), (9, 2.2622), (10, 2.2281), (11, 2.2010), (12, 2.1788), (30, 2.0423)],
)
def test_students_quantiles(freedom: int, quantile: float) -> None:
    """As in any printed table."""
    assert student(freedom) == pytest.approx(quantile, rel=0.002)
    if freedom <= 10:
        assert student(freedom) == quantile
