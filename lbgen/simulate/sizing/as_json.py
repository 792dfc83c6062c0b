"""What sizing found, as JSON and as a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.simulate.answers.charts import Chart, lines_of
from lbgen.simulate.answers.picture import drawn
from lbgen.simulate.answers.report import Page, Section, html, known
from lbgen.simulate.answers.study import is_closed
from lbgen.simulate.load.logs.replay import Log
from lbgen.simulate.sizing.as_text import Costs, saved, size_columns, size_headline, size_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lbgen.simulate.sizing.needed import Needed, Step
    from lbgen.simulate.sizing.size import Sized

CAPTION = "The objective's figure against the number of servers; logarithmic scale, averages over the seeds."


def size_json(found: Sequence[Sized], costs: Costs) -> dict[str, Any]:
    """Return one entry for each pool, in it one for each kind, strategy and target."""
    return {
        "kind": "size",
        "objective": found[0].objective.text,
        "pools": [_pool(one, costs) for one in found],
    }


def _pool(found: Sized, costs: Costs) -> dict[str, Any]:
    question = found.question
    load = question.workload
    return {
        "pool": question.pool.name,
        "servers_now": found.now,
        "too_few": found.lacking,
        "workload": {
            "name": load.name,
            "rate_per_s": None if is_closed(load) else round(question.rate_per_s or load.own_rate or 0.0, 6),
            "requests": found.requests,
            "seeds": list(question.seeds),
            "assumed": list(load.said) if isinstance(load, Log) else [],
        },
        "now": None if found.present is None else _step(found.present),
        "needed": [_needed(found, one, costs) for one in found.needed],
    }


def _needed(found: Sized, one: Needed, costs: Costs) -> dict[str, Any]:
    cost = costs.of(one)
    return {
        "profile": one.kind,
        "strategy": one.strategy,
        "target": one.target,
        "present": one.present,
        "servers": one.servers,
        "low": one.low,
        "high": one.high,
        "servers_with_one_dead": None if one.servers is None else one.servers + 1,
        "saves": saved(found, one),
        "cost_per_hour": None if cost is None else round(cost, 6),
        "curve": [_step(step) for step in one.steps],
        "one_dies": [_step(step) for step in one.dies],
    }


def _step(step: Step) -> dict[str, Any]:
    mean, half = step.value or (None, None)
    return {
        "servers": step.servers,
        "load": None if step.load is None else round(step.load, 6),
        "value": None if mean is None else round(mean, 6),
        "low": None if mean is None or half is None else round(max(0.0, mean - half), 6),
        "high": None if mean is None or half is None else round(mean + half, 6),
        "requests": step.requests,
        "failed": step.failed,
        "steady": step.steady,
        "met": step.met,
    }


def size_page(found: Sequence[Sized], costs: Costs, templates: Path) -> str:
    """Return a page with the table and the curve of each pool."""
    shown = Page(
        "size",
        f"How many servers: {found[0].objective.text}",
        [_section(one, costs) for one in found],
        "the same command gives the same page.",
    )
    return html(shown, templates)


def size_picture(found: Sequence[Sized], costs: Costs, templates: Path) -> str:
    """Return the curves as one picture."""
    charts = [(chart, "") for one in found for chart in _charts(one)]
    said = [line for one in found for line in (size_headline(one), *size_words(one, costs)[:2])]
    return drawn(f"How many servers: {found[0].objective.text}", charts, said, templates)


def _section(found: Sized, costs: Costs) -> Section:
    columns = size_columns(found, costs)
    return Section(
        title=found.question.pool.name,
        words=size_words(found, costs),
        headline=size_headline(found),
        header=[column.title for column in columns],
        rows=[list(cells) for cells in zip(*(column.cells for column in columns), strict=True)],
        differences=[],
        charts=_charts(found),
        over_time=[],
    )


def _charts(found: Sized) -> list[Chart]:
    """Return a chart for each kind: a line for each strategy."""
    kinds = dict.fromkeys(one.kind for one in found.needed)
    return known(_chart(found, kind) for kind in kinds)


def _chart(found: Sized, kind: str) -> Chart | None:
    lines = {}
    for one in found.needed:
        name = f"{one.strategy} on {one.target}" if one.target else one.strategy
        if one.kind == kind:
            lines[name] = [(step.servers, step.value.mean) for step in one.steps if step.value is not None]
    title = f"{found.objective.metric} of {found.question.pool.name}, {kind}"
    return lines_of("servers", title, CAPTION, lines, found.objective.limit)
