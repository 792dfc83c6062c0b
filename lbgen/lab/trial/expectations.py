"""Expectations such as ``load_stdev<2`` and ``p99(least_conn)<0.85*p99(round_robin)``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import LbgenError
from lbgen.simulate.result import combined, row_name, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.simulate.result import Figures, Row

DISTRIBUTIONS = {"ttft": "ttft_s", "e2e": "e2e_s"}
SHARES = ("mean", "p50", "p90", "p95", "p99")
OTHERS = ("load_stdev", "errors")
_TERM = (
    r"(?:(?P<factor{0}>\d+(?:\.\d+)?)\s*\*\s*)?(?P<metric{0}>[a-z]\w*)(?:\(\s*(?P<strategy{0}>[\w-]+)\s*\))?"
)
_NUMBER = r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s)?"


class Term(NamedTuple):
    """A figure of a strategy times a factor."""

    metric: str
    strategy: str | None
    """None: of every strategy."""
    factor: float = 1.0

    def value(self, run: Figures) -> float | None:
        """Return the figure of a run; None when it has none."""
        if self.metric == "load_stdev":
            return None if run.load_stdev is None else run.load_stdev * self.factor
        if self.metric == "errors":
            return (run.requests - run.ok) * self.factor
        name, _, share = self.metric.partition("_")
        value: float | None = getattr(getattr(run, DISTRIBUTIONS[name]), share)
        return None if value is None else value * self.factor


class Expectation(NamedTuple):
    """A figure that has to stay below a number, or below another figure of the same target."""

    text: str
    left: Term
    right: Term | float


def parse(text: str) -> Expectation:
    """Return the expectation that a text stands for; raises `LbgenError`.

    A bare ``p99`` is that of whole answers, ``e2e_p99``.
    """
    match = re.fullmatch(rf"\s*{_TERM.format(1)}\s*<\s*(?:{_NUMBER}|{_TERM.format(2)})\s*", text, re.ASCII)
    if match is None:
        raise _bad(text, "it has another form")
    left = _term(text, match, "1")
    if match["number"] is None:
        right = _term(text, match, "2")
        if right.strategy is None or left.strategy is None:
            raise _bad(text, "a comparison of two figures names both strategies")
        return Expectation(text.strip(), left, right)
    if match["unit"] and left.metric in OTHERS:
        raise _bad(text, f"{left.metric} is not a time")
    return Expectation(text.strip(), left, float(match["number"]) * (0.001 if match["unit"] == "ms" else 1.0))


def missing(expectations: Sequence[Expectation], strategies: Sequence[str]) -> None:
    """Raise `LbgenError` for a strategy that an expectation names and nobody tries."""
    for one in expectations:
        for term in (one.left, one.right):
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
            elif not value < limit:
                shown, most = _shown(one.left.metric, value), _shown(one.left.metric, limit)
                yield f"{one.text}: does not hold for {row_name(row)}: {shown} is not below {most}"


def _limit(right: Term | float, row: Row, rows: Sequence[Row]) -> float | None:
    if isinstance(right, float):
        return right
    other = next((one for one in rows if (one.strategy, one.target) == (right.strategy, row.target)), None)
    return None if other is None else right.value(combined(other.runs))


def _term(text: str, match: re.Match[str], number: str) -> Term:
    metric = match[f"metric{number}"]
    metric = f"e2e_{metric}" if metric in SHARES else metric
    known = [*(f"{name}_{share}" for name in DISTRIBUTIONS for share in SHARES), *OTHERS]
    if metric not in known:
        raise _bad(text, f"'{metric}' is not one of {', '.join(known)}")
    return Term(metric, match[f"strategy{number}"], float(match[f"factor{number}"] or 1))


def _bad(text: str, why: str) -> LbgenError:
    return LbgenError(
        f"--expect '{text}': {why}; write 'load_stdev<2', 'ttft_p99<1.5s' or "
        "'p99(least_conn)<0.85*p99(round_robin)'"
    )


def _shown(metric: str, value: float) -> str:
    return f"{value:.4g}" if metric in OTHERS else seconds(value)
