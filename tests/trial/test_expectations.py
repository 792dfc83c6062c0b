"""What ``--expect`` understands, and when it does not hold."""

import pytest

from lbgen.lab.trial.asked.expectations import failed, missing, parse
from lbgen.problems import LbgenError
from lbgen.simulate.runs.result import Figures, Row, Spread


def _row(strategy: str, p99: float, stdev: float | None = 1.0, target: str = "nginx") -> Row:
    figures = Figures(
        10, 9, {"503": 1}, 5.0, Spread(p99=p99), Spread(p99=p99), Spread(), 1.0, stdev, None, ()
    )
    return Row(strategy, target, (figures,))


ROWS = [_row("least_conn", 1.0), _row("round_robin", 2.0)]


@pytest.mark.parametrize(
    "text",
    ["load_stdev<2", "tokens_per_s>0.5", "errors<=1", "errors>=1", "p99(leastconn) > .4",
     "ttft_p99<2.1s", "ttft_p99 < 2100ms", "errors<2", "load_stdev(least_conn)<1.5",
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
    ("text", "words", "column"),
    [
        ("", "a figure has to stand", 0),
        ("load_stdev", "one of <=, >=, <, > has to stand", 10),
        ("load_stdev<", "a figure has to stand", 11),
        (" p98<1", "'p98' is not a figure: did you mean p99?", 1),
        ("load_stdev<2s", "load_stdev is not a time", 12),
        ("p99<p99", "names both strategies", 4),
        ("p99(a)<p99", "'a' is not a strategy: there are", 4),
        ("p99(leest_conn)<1", "did you mean least_conn?", 4),
        ("p99(least_conn<1", "')' has to stand", 14),
        ("p99<1;p99<2", "nothing more is understood", 5),
        ("1<p99", "the figure comes first", 1),
        ("p99<1.5 m", "nothing more is understood", 8),
    ],
)
def test_what_cannot_be_read_is_shown_with_its_place(text: str, words: str, column: int) -> None:
    with pytest.raises(LbgenError) as caught:
        parse(text)
    why, line, caret, advice = str(caught.value).splitlines()
    assert words in why
    assert (line, caret) == (f"  {text}", f"  {' ' * column}^")
    assert "write 'load_stdev<2'" in advice


def test_a_strategy_that_is_not_tried_is_named() -> None:
    with pytest.raises(LbgenError, match="add --strategy random_two"):
        missing([parse("p99(least_conn)<p99(random_two)")], ["least_conn"])
