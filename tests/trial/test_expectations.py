"""What ``--expect`` understands, and when it does not hold."""

import pytest

from lbgen.lab.trial.expectations import failed, missing, parse
from lbgen.problems import LbgenError
from lbgen.simulate.result import Figures, Row, Spread


def _row(strategy: str, p99: float, stdev: float | None = 1.0, target: str = "nginx") -> Row:
    figures = Figures(
        10, 9, {"503": 1}, 5.0, Spread(p99=p99), Spread(p99=p99), Spread(), 1.0, stdev, None, ()
    )
    return Row(strategy, target, (figures,))


ROWS = [_row("least_conn", 1.0), _row("round_robin", 2.0)]


@pytest.mark.parametrize(
    "text",
    ["load_stdev<2", "ttft_p99<2.1s", "ttft_p99 < 2100ms", "errors<2", "load_stdev(least_conn)<1.5",
     "p99(least_conn)<0.85*p99(round_robin)", "e2e_p99(least_conn)<3"],
)  # fmt: skip
def test_what_holds_says_nothing(text: str) -> None:
    assert list(failed([parse(text)], ROWS)) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("load_stdev<1", "does not hold for least_conn on nginx: 1 is not below 1"),
        ("ttft_p99<1.5s", "does not hold for round_robin on nginx: 2.00 s is not below 1.50 s"),
        ("p99(round_robin)<p99(least_conn)", "2.00 s is not below 1.00 s"),
        ("ttft_p50<1", "not measured"),
    ],
)
def test_what_fails_is_a_sentence(text: str, words: str) -> None:
    assert words in "\n".join(failed([parse(text)], ROWS))


def test_strategies_are_compared_on_the_same_target() -> None:
    rows = [*ROWS, _row("least_conn", 9.0, target="haproxy"), _row("round_robin", 10.0, target="haproxy")]
    assert list(failed([parse("p99(least_conn)<p99(round_robin)")], rows)) == []


@pytest.mark.parametrize(
    "text",
    ["", "load_stdev", "load_stdev<", "p98<1", "load_stdev<2s", "p99<p99", "p99(a)<p99", "a<1;b<2", "p99>1"],
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(LbgenError, match="--expect"):
        parse(text)


def test_a_strategy_that_is_not_tried_is_named() -> None:
    with pytest.raises(LbgenError, match="add --strategy random_two"):
        missing([parse("p99(least_conn)<p99(random_two)")], ["least_conn"])
