"""A log beside its prediction, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.simulate.answers.columns import Column, folded, wrapped
from lbgen.simulate.answers.text import figure
from lbgen.simulate.answers.twin import FIGURES, NEAR_P50, NEAR_P99, clock, findings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.simulate.answers.twin import Pair, Twin

TITLES = {"queue": "wait", "ttft": "first token", "token": "between tokens", "e2e": "whole answer"}
SIDES = ("measured", "predicted")


def twin_text(found: Twin, width: int = 0) -> str:
    """Return tables and findings; `width`: of the terminal, 0: as wide as need be."""
    where = f" on {found.target}" if found.target else ""
    head = f"{found.requests:,} requests of the log, and the prediction for {found.strategy}{where}"
    lost = f"; {found.failed:,} of them would have found no place in the queue" if found.failed else ""
    lines = [*wrapped([head + lost], width), "", *folded(_whole(found.pairs), 1, width)]
    if len(found.windows) > 1:
        lines += ["", *folded(list(_by_window(found)), 1, width)]
    if any(pair.predicted is not None and pair.measured for pair in found.shares.values()):
        lines += ["", *folded(list(_by_server(found)), 1, width)]
    said = [f"- {one}" for one in findings(found)] or [
        f"- measured and predicted agree: within {NEAR_P50:.0%} at the median and {NEAR_P99:.0%} at P99"
    ]
    return "\n".join([*lines, "", *wrapped(said, width)]) + "\n"


def twin_json(found: Twin) -> dict[str, Any]:
    """Return everything, in seconds and shares."""
    return {
        "strategy": found.strategy,
        "target": found.target,
        "requests": found.requests,
        "failed": found.failed,
        "figures": _by_name(found.pairs),
        "windows": [
            {"begin": clock(one.begin_s), "length_s": found.length_s, "requests": one.requests,
             "figures": _by_name(one.pairs), "idle": list(one.idle)}
            for one in found.windows
        ],
        "shares": {
            name: {"measured": pair.measured, "predicted": pair.predicted}
            for name, pair in found.shares.items()
        },
        "findings": list(findings(found)),
    }  # fmt: skip


def _by_name(pairs: Sequence[Pair]) -> dict[str, Any]:
    return {
        f"{one.name.replace('_p', '_s_p')}": {"measured": one.measured, "predicted": one.predicted}
        for one in pairs
    }


def _whole(pairs: Sequence[Pair]) -> list[Column]:
    known = {pair.name: pair for pair in pairs}
    columns = [Column("", "seconds", [*SIDES, "ratio"])]
    for name in FIGURES:
        for share in ("p50", "p99"):
            pair = known[f"{name}_{share}"]
            if pair.measured is not None:
                ratio = "-" if pair.ratio is None else f"{pair.ratio:.2f}"
                cells = [figure(pair.measured), figure(pair.predicted), ratio]
                columns.append(Column(TITLES[name], share.upper(), cells))
    return columns


def _by_window(found: Twin) -> Iterator[Column]:
    yield Column("", "from (UTC)", [clock(one.begin_s) for one in found.windows])
    yield Column("", "requests", [f"{one.requests:,}" for one in found.windows])
    for name in ("ttft_p50", "ttft_p99", "e2e_p99"):
        pairs = [next(pair for pair in one.pairs if pair.name == name) for one in found.windows]
        if any(pair.measured is not None for pair in pairs):
            kind, _, share = name.partition("_")
            title = f"{TITLES[kind]} {share.upper()}, s"
            yield Column(title, SIDES[0], [figure(pair.measured) for pair in pairs])
            yield Column(title, SIDES[1], [figure(pair.predicted) for pair in pairs])


def _by_server(found: Twin) -> Iterator[Column]:
    yield Column("", "server", list(found.shares))
    for side in SIDES:
        values = [getattr(pair, side) for pair in found.shares.values()]
        yield Column("requests", side, ["-" if one is None else f"{one:.1%}" for one in values])
