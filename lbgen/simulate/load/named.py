"""Workloads by what the user writes: ``bimodal``, ``shared:prefixes=64,skew=1.1``, or the path of a trace."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.problems import LbgenError
from lbgen.simulate.load.arrivals import ARRIVALS
from lbgen.simulate.load.conversations import Agents, Chat, span
from lbgen.simulate.load.logs.load import is_log, read_log
from lbgen.simulate.load.traces import read_trace
from lbgen.simulate.load.workload import Bimodal, Exponential, Fixed, Generated, Shared, Tenants
from lbgen.simulate.load.workload_file import MOST_TOKENS, read_workload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.simulate.load.workload import Workload

TRACE_ENDINGS = (".csv", ".jsonl")
FILE_ENDINGS = (".yaml", ".yml")
WORKLOADS: Mapping[str, type[Generated]] = {
    kind.name: kind for kind in (Bimodal, Fixed, Exponential, Shared, Tenants, Chat, Agents)
}
"""By name, the default first."""
SPANS = {("agents", "results"), ("agents", "output")}
"""Parameters that are ranges of tokens."""


def workload(text: str, *, skip_bad_rows: bool = False, pool: str | None = None) -> Workload:
    """Return the workload that a text stands for; raises `LbgenError` (`FleetError` for a trace's rows).

    `pool`: whose lines of a log count, where it names pools.
    """
    if text.endswith(FILE_ENDINGS):
        return read_workload(Path(text))
    if is_log(text):
        return read_log(text, pool=pool)
    if text.endswith(TRACE_ENDINGS) or "/" in text:
        return read_trace(Path(text), skip_bad_rows=skip_bad_rows)
    name, _, rest = text.partition(":")
    if name not in WORKLOADS:
        near = get_close_matches(name, WORKLOADS, n=1)
        advice = (
            f"did you mean {near[0]}?"
            if near
            else f"there are {', '.join(WORKLOADS)}, and .yaml, .csv, .jsonl and .log"
        )
        raise LbgenError(f"'{name}' is not a workload: {advice}")
    return WORKLOADS[name](dict(_parameter(name, word) for word in rest.split(",") if word))


def _parameter(workload_name: str, word: str) -> tuple[str, float | str]:
    key, equals, value = word.partition("=")
    known = (*WORKLOADS[workload_name].keys, "arrivals")
    if not equals or key not in known:
        raise LbgenError(
            f"'{word}' cannot be set for {workload_name}: write one of {', '.join(known)} as key=value"
        )
    if key == "arrivals":
        if value not in ARRIVALS:
            raise LbgenError(f"'{value}' is no way to arrive: there are {', '.join(ARRIVALS)}")
        return key, value
    if (workload_name, key) in SPANS:
        return key, _span(key, value)
    try:
        number = float(value)
    except ValueError:
        raise LbgenError(f"'{value}' is not a number, which {key} has to be") from None
    if not 0 <= number <= 1e9:
        raise LbgenError(f"{key} cannot be {value}: write a number from 0 on")
    return key, number


def _span(key: str, value: str) -> str:
    try:
        most = span(value).most
    except ValueError:
        most = 0
    if not 0 < most <= MOST_TOKENS:
        raise LbgenError(f"{key} cannot be {value}: write a number of tokens, or a range such as 200-3000")
    return value
