"""Expectations such as ``load_stdev<2`` and ``p99(least_conn)<0.85*p99(round_robin)``."""

from __future__ import annotations

import operator
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import LbgenError
from lbgen.simulate.runs.result import combined, row_name, seconds
from lbgen.simulate.servers.pool import canonical
from lbgen.strategies.registry import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.simulate.runs.result import Figures, Row

DISTRIBUTIONS = {"ttft": "ttft_s", "e2e": "e2e_s"}
SHARES = ("mean", "p50", "p90", "p95", "p99")
OTHERS = ("load_stdev", "errors", "tokens_per_s", "prefix_hit_ratio")
METRICS = (*(f"{name}_{share}" for name in DISTRIBUTIONS for share in SHARES), *OTHERS)
COMPARISONS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
"""The longer ones first: they begin alike."""
NOT = {"<": "below", "<=": "at most", ">": "above", ">=": "at least"}
UNITS = {"ms": 0.001, "s": 1.0}
BESIDE = "beside"
"""What stands for the file of --beside where a strategy is named."""
EXAMPLES = "write 'load_stdev<2', 'ttft_p99<1.5s' or 'p99(least_conn)<0.85*p99(round_robin)'"


class Term(NamedTuple):
    """A figure of a strategy times a factor."""

    metric: str
    strategy: str | None
    """None: of every strategy."""
    factor: float = 1.0

    def value(self, run: Figures) -> float | None:
        """Return the figure of a run; None when it has none."""
        value: float | None
        if self.metric == "errors":
            value = run.requests - run.ok
        elif self.metric in OTHERS:
            value = getattr(run, self.metric)
        else:
            name, _, share = self.metric.partition("_")
            value = getattr(getattr(run, DISTRIBUTIONS[name]), share)
        return None if value is None else value * self.factor


class Expectation(NamedTuple):
    """A figure, and how it has to stand to a number or to another figure of the same target."""

    text: str
    left: Term
    comparison: str
    right: Term | float


class _Reader:
    """Reads an expectation from left to right, and knows where it stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = self.begin = 0

    def take(self, pattern: str) -> str | None:
        """Return what stands here, if it is this, and go on behind it and blanks."""
        found = re.compile(rf"\s*({pattern})\s*", re.ASCII).match(self.text, self.at)
        if found is None:
            return None
        self.begin, self.at = found.start(1), found.end()
        return found[1]

    def wrong(self, why: str, at: int | None = None) -> LbgenError:
        """Return the complaint, with a caret below the place."""
        place = self.at if at is None else at
        return LbgenError(f"--expect: {why}\n  {self.text}\n  {' ' * place}^\n{EXAMPLES}")


def parse(text: str) -> Expectation:
    """Return the expectation that a text stands for; raises `LbgenError`.

    A bare ``p99`` is that of whole answers, ``e2e_p99``.
    """
    reader = _Reader(text)
    left = _term(reader)
    comparison = reader.take("|".join(COMPARISONS))
    if comparison is None:
        raise reader.wrong(f"here one of {', '.join(COMPARISONS)} has to stand")
    right = _right(reader, left)
    if reader.at < len(text):
        raise reader.wrong("nothing more is understood behind this")
    return Expectation(text.strip(), left, comparison, right)


def missing(expectations: Sequence[Expectation], strategies: Sequence[str]) -> None:
    """Raise `LbgenError` for a strategy that an expectation names and nobody tries."""
    for one in expectations:
        for term in (one.left, one.right):
            if isinstance(term, Term) and term.strategy == BESIDE and BESIDE not in strategies:
                raise LbgenError(f"--expect '{one.text}' is about a file beside: name it with --beside")
            if isinstance(term, Term) and term.strategy and term.strategy not in strategies:
                raise LbgenError(
                    f"--expect '{one.text}' is about {term.strategy}, which is not tried: "
                    f"add --strategy {term.strategy}"
                )


def failed(expectations: Sequence[Expectation], rows: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence for each expectation and row that it does not hold for."""
    for one in expectations:
        concerned = [row for row in rows if one.left.strategy in {None, row.strategy}]
        if not concerned:
            yield f"{one.text}: not measured"
        for row in concerned:
            limit = _limit(one.right, row, rows)
            value = one.left.value(combined(row.runs))
            if value is None or limit is None:
                yield f"{one.text}: not measured for {row_name(row)}"
            elif not COMPARISONS[one.comparison](value, limit):
                shown, most = _shown(one.left.metric, value), _shown(one.left.metric, limit)
                why = f"{shown} is not {NOT[one.comparison]} {most}"
                yield f"{one.text}: does not hold for {row_name(row)}: {why}"


def _limit(right: Term | float, row: Row, rows: Sequence[Row]) -> float | None:
    if isinstance(right, float):
        return right
    named = [one for one in rows if one.strategy == right.strategy]
    alone = BESIDE in {row.strategy, right.strategy}  # a file is compared with every target's rows
    other = next((one for one in named if alone or one.target == row.target), None)
    return None if other is None else right.value(combined(other.runs))


def _right(reader: _Reader, left: Term) -> Term | float:
    begin = reader.at
    number = _number(reader)
    if number is not None and reader.take(r"\*") is None:
        unit = reader.take("ms|s")
        if unit and left.metric in OTHERS:
            raise reader.wrong(f"{left.metric} is not a time", reader.begin)
        return number * UNITS[unit or "s"]
    right = _figure(reader, 1.0 if number is None else number)
    if right.strategy is None or left.strategy is None:
        raise reader.wrong("a comparison of two figures names both strategies", begin)
    return right


def _term(reader: _Reader) -> Term:
    factor = _number(reader)
    if factor is not None and reader.take(r"\*") is None:
        raise reader.wrong("here '*' and a figure have to stand: the figure comes first")
    return _figure(reader, 1.0 if factor is None else factor)


def _figure(reader: _Reader, factor: float) -> Term:
    metric = reader.take(r"[A-Za-z]\w*")
    if metric is None:
        raise reader.wrong("here a figure has to stand, such as ttft_p99")
    full = f"e2e_{metric}" if metric in SHARES else metric
    if full not in METRICS:
        known = (*METRICS, *SHARES)
        raise reader.wrong(f"'{metric}' is not a figure: {_nearest(metric, known)}", reader.begin)
    return Term(full, _strategy(reader), factor)


def _strategy(reader: _Reader) -> str | None:
    if reader.take(r"\(") is None:
        return None
    name = reader.take(r"[\w-]+")
    if name is None:
        raise reader.wrong("here a strategy has to stand")
    begin, known = reader.begin, BESIDE if name == BESIDE else canonical(name)
    if known is None:
        raise reader.wrong(f"'{name}' is not a strategy: {_nearest(name, (*STRATEGIES, BESIDE))}", begin)
    if reader.take(r"\)") is None:
        raise reader.wrong("here ')' has to stand")
    return known


def _number(reader: _Reader) -> float | None:
    text = reader.take(r"\d+(?:\.\d+)?|\.\d+")
    return None if text is None else float(text)


def _nearest(word: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"


def _shown(metric: str, value: float) -> str:
    return f"{value:.4g}" if metric in OTHERS else seconds(value)
