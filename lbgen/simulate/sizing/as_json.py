"""What sizing found, as JSON and as a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.simulate.answers.bars import Bars, Value, bars
from lbgen.simulate.answers.charts import Chart, against_servers
from lbgen.simulate.answers.looks import looks
from lbgen.simulate.answers.picture import drawn
from lbgen.simulate.answers.report import Origin, Page, Section, html, known
from lbgen.simulate.answers.study import is_closed
from lbgen.simulate.load.logs.replay import Log
from lbgen.simulate.sizing.as_text import Costs, saved, size_columns, size_headline, size_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lbgen.simulate.sizing.needed import Needed, Step
    from lbgen.simulate.sizing.size import Sized


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


def size_page(found: Sequence[Sized], costs: Costs, templates: Path, origin: Origin) -> str:
    """Return a page with the table and the curve of each pool."""
    told = Page(
        "size",
        f"Servers needed for {found[0].objective.text}",
        [_section(one, costs) for one in found],
        origin,
        found[0].question.fleet.digest,
    )
    return html(told, templates)


def size_picture(found: Sequence[Sized], costs: Costs, templates: Path) -> str:
    """Return the curves as one picture."""
    charts = [(chart, "") for one in found for chart in _charts(one)]
    said = [line for one in found for line in (size_headline(one), *size_words(one, costs)[:2])]
    return drawn(f"Servers needed for {found[0].objective.text}", charts, said, templates)


def _section(found: Sized, costs: Costs) -> Section:
    return Section(
        title=found.question.pool.name,
        words=size_words(found, costs),
        headline=size_headline(found),
        columns=size_columns(found, costs),
        bars=known(_bars(found, kind) for kind in _kinds(found)),
        differences=[],
        charts=_charts(found),
        over_time=[],
    )


def _charts(found: Sized) -> list[Chart]:
    """Return a chart for each kind: a line for each strategy."""
    return known(_chart(found, kind) for kind in _kinds(found))


def _kinds(found: Sized) -> list[str]:
    return list(dict.fromkeys(one.kind for one in found.needed))


def _of(found: Sized, kind: str) -> Iterator[tuple[str, str, Needed]]:
    """Yield name, looks and answer of each strategy with servers of one kind."""
    targets = list(dict.fromkeys(one.target for one in found.needed))
    for one in found.needed:
        if one.kind == kind:
            name = f"{one.strategy} on {one.target}" if one.target else one.strategy
            yield name, looks(one.strategy, targets.index(one.target)), one


def _bars(found: Sized, kind: str) -> Bars | None:
    values = [
        Value(
            name,
            f"{one.servers}{_between(one)}",
            style,
            one.servers,
            one.low or one.servers,
            one.high or one.servers,
        )
        for name, style, one in _of(found, kind)
        if one.servers is not None
    ]
    return bars("servers-bars", f"Servers needed, {kind}", "servers; line: 95 % interval", values)


def _between(one: Needed) -> str:
    return "" if one.low == one.high else f" ({one.low} to {one.high or 'more'})"


def _chart(found: Sized, kind: str) -> Chart | None:
    lines = {
        name: (style, [(float(step.servers), step.value) for step in one.steps if step.value is not None])
        for name, style, one in _of(found, kind)
    }
    title = f"{found.objective.metric} of {found.question.pool.name}, {kind}"
    metric = found.objective.metric
    return against_servers(title, metric, lines, found.objective.limit, counted=metric == "load_stdev")
