"""Grafana: one dashboard over what Prometheus records of a fleet, the same for each balancer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.manifests.order import Made
from lbgen.manifests.watching.prometheus import metrics_of
from lbgen.manifests.watching.signals import recordings, untold
from lbgen.render import RenderedFile, header
from lbgen.targets import telling
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.manifests.order import Order

MAIN = "dashboard.json"
SCHEMA = 36
"""Of Grafana 9; newer ones read it and bring it up to date."""
WIDTH, HEIGHT = 12, 8
"""Of a panel, in units of Grafana's grid, which is 24 wide."""
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Query(NamedTuple):
    """One query of a panel; `{}` in `expr` are the matchers of the fleet and the chosen pools."""

    series: str
    """What it reads: without it, the query has nothing to show."""
    expr: str
    legend: str


class Panel(NamedTuple):
    """One panel."""

    title: str
    unit: str
    """Grafana's name of it."""
    description: str
    queries: tuple[Query, ...]
    stacked: bool = False


def _plain(series: str, legend: str) -> Query:
    return Query(series, f"{series}{{}}", legend)


_SERVER, _POOL = "{{pool}}/{{server}}", "{{pool}}"
_QUANTILE = "{{pool}} P{{quantile}}"

PANELS = (
    Panel(
        "Requests in flight by server", "short",
        "Sent and not yet answered in full. Dashes: max_in_flight.",
        (_plain(telling.IN_FLIGHT, _SERVER), _plain(telling.CAP, f"{_SERVER} cap")),
    ),
    Panel(
        "Requests that wait", "short",
        "By pool, in the balancer; where it has no queue, in the engines.",
        (_plain(telling.QUEUE, _POOL),),
    ),
    Panel(
        "Requests that engines compute, and that wait in them", "short",
        "By the engines' own count, which other clients of theirs are part of.",
        (_plain(telling.RUNNING, f"{_SERVER} running"), _plain(telling.WAITING, f"{_SERVER} waiting")),
    ),
    Panel(
        "Servers out", "short",
        "1: out; drained servers are shown apart.",
        (_plain(telling.OUT, f"{_SERVER} out"), _plain(telling.DRAINED, f"{_SERVER} drained")),
    ),
    Panel(
        "Time to the first token", "s",
        "As engines measure it, from a request's arrival there, without the balancer's queue. No balancer "
        "sees it: engines such as vLLM send the headers of an answer before its first token.",
        (_plain(telling.FIRST_TOKEN, _QUANTILE), _plain(telling.WAIT, f"{_POOL} mean wait in the balancer")),
    ),
    Panel(
        "Time of whole answers", "s",
        "As engines measure it.",
        (_plain(telling.ANSWER, _QUANTILE),),
    ),
    Panel(
        "Share of requests by server", "percentunit",
        "Of a pool's answers of the last five minutes.",
        (
            Query(
                telling.REQUESTS,
                f"{telling.REQUESTS}{{}} / on (fleet, pool) group_left () "
                f"sum by ({telling.BY_POOL}) ({telling.REQUESTS}{{}})",
                _SERVER,
            ),
        ),
        stacked=True,
    ),
    Panel(
        "Decisions of affinity",
        "reqps",
        "home: to the conversation's server; prompt: to the one that knows its system prompt; moved: its home"
        " was too full; least: to the one with the least in flight.",
        (_plain(telling.DECISIONS, "{{pool}} {{decision}}"),),
    ),
    Panel(
        "Errors by cause", "reqps",
        "A request may be counted under several causes.",
        (_plain(telling.ERRORS, "{{pool}}: {{cause}}"),),
    ),
    Panel(
        "Prompt tokens found in prefix caches", "percentunit",
        "What affinity is for: the share of prompt tokens that engines did not have to compute again.",
        (_plain(telling.PREFIX_HITS, _POOL),),
    ),
    Panel(
        "KV cache in use", "percentunit",
        "Of each engine.",
        (_plain(telling.KV_USAGE, _SERVER),),
    ),
    Panel(
        "Connections", "short",
        "Of each balancer, idle ones too.",
        (Query(telling.CONNECTIONS, f'{telling.CONNECTIONS}{{fleet="$fleet"}}', "{{instance}}"),),
    ),
)  # fmt: skip


def grafana(order: Order) -> Made:
    """Return the dashboard; raises `LbgenError` for a fleet without `metrics`."""
    metrics_of(order)
    told = {rule.record for rule in recordings(order)}
    said = header(order.fleet, f"-t {order.target} --as {order.form}")
    value = {
        "title": f"{order.fleet.name} behind {TARGETS[order.target].title}",
        "uid": f"lbgen-{order.target}-{order.fleet.name}"[:40],
        "tags": ["lbgen", order.target],
        "schemaVersion": SCHEMA,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "",
        "templating": {"list": list(_variables(order))},
        "panels": [*_panels(told), _words(order, len(PANELS))],
    }
    # The first line says who wrote it: JSON has no comments.
    rest = json.dumps(value, indent=2, ensure_ascii=False).removeprefix("{\n")
    text = f'{{"description": {json.dumps(said, ensure_ascii=False)},\n{rest}\n'
    return Made((RenderedFile(MAIN, text),), ())


def _variables(order: Order) -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    yield {"name": "fleet", "type": "constant", "query": order.fleet.name, "hide": 2}
    names = [pool.name for pool in order.fleet.pools]
    choices = [{"text": "All", "value": "$__all", "selected": True}]
    choices += [{"text": name, "value": name, "selected": False} for name in names]
    yield {
        "name": "pool",
        "type": "custom",
        "query": ",".join(names),
        "options": choices,
        "current": choices[0],
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
    }


def _panels(told: set[str]) -> Iterator[dict[str, Any]]:
    for number, panel in enumerate(PANELS):
        queries = [query for query in panel.queries if query.series in told]
        common = {"id": number + 1, "title": panel.title, "gridPos": _place(number)}
        if not queries:
            yield common | _text("Nothing here tells it: see the last panel.")
            continue
        yield common | {
            "type": "timeseries",
            "description": panel.description,
            "datasource": SOURCE,
            "targets": [_target(query, "ABC"[at]) for at, query in enumerate(queries)],
            "fieldConfig": {
                "defaults": {
                    "unit": panel.unit,
                    "min": 0,
                    "custom": {"fillOpacity": 20, "stacking": {"mode": "normal"}} if panel.stacked else {},
                },
                "overrides": [_dashed("cap")]
                if "cap" in {query.legend.split()[-1] for query in queries}
                else [],
            },
            "options": {
                "legend": {"displayMode": "list", "placement": "bottom"},
                "tooltip": {"mode": "multi"},
            },
        }


def _target(query: Query, letter: str) -> dict[str, Any]:
    expr = query.expr.replace("{}", '{fleet="$fleet",pool=~"$pool"}')
    return {"refId": letter, "datasource": SOURCE, "expr": expr, "legendFormat": query.legend}


def _dashed(word: str) -> dict[str, Any]:
    """Return what draws series whose names end in a word as dashes."""
    dashes = {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}}
    return {"matcher": {"id": "byRegexp", "options": f"/ {word}$/"}, "properties": [dashes]}


def _place(number: int) -> dict[str, int]:
    return {"x": number % 2 * WIDTH, "y": number // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT}


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "options": {"mode": "markdown", "content": words}}


def _words(order: Order, number: int) -> dict[str, Any]:
    """Return the panel that says what is shown nowhere."""
    lines = list(untold(order)) or ["Everything is told."]
    common = {"id": number + 1, "title": "What is not told", "gridPos": _place(number)}
    return common | _text("\n\n".join(lines))
