"""A trial's report and table: what was predicted beside what was measured."""

import re

from lbgen.lab.trial.results.page import page
from lbgen.lab.trial.results.told import text
from lbgen.render import builtin_templates
from lbgen.simulate.answers.report import Origin
from tests.trial.trials import made_up

FROM = Origin("lbgen trial fleet.yaml", "2026-11-30 20:00 UTC")


def test_each_row_is_there_twice() -> None:
    html = page(made_up(), builtin_templates(), FROM)
    cells = re.findall(r"<td[^>]*>(.*?)</td>", html)
    assert (cells.count("predicted"), cells.count("measured")) == (4, 4)
    assert "<h1>Strategies for the pool chat, measured</h1>" in html
    assert "{{" not in html


def test_what_was_predicted_is_dotted_in_the_same_colour() -> None:
    html = page(made_up(), builtin_templates(), FROM)
    chart = html[html.index('data-chart="ttft"') : html.index('data-chart="e2e"')]
    curves = re.findall(r'<polyline class="curve ([^"]*)".*?<title>([^<]*)</title>', chart)
    assert len(curves) == 8
    for (dotted, before), (plain, after) in zip(curves[::2], curves[1::2], strict=True):
        assert dotted == f"{plain} guess"
        assert (before.rpartition(", ")[0], before[-9:]) == (after.rpartition(", ")[0], "predicted")
    assert len({style for style, _ in curves}) == 8


def test_missed_expectations_come_first() -> None:
    html = page(made_up(), builtin_templates(), FROM, ["load_stdev<1: does not hold for a & b"])
    words = html[html.index('class="words"') :]
    assert (
        words[: words.index("99 of 100")].count("Expected load_stdev&lt;1: does not hold for a &amp; b.") == 1
    )


def test_hits_are_a_column_only_where_there_are_some() -> None:
    assert "hits" not in text(made_up()).splitlines()[2].split()
    trial = made_up("shared")
    rows = [
        row._replace(
            measured=row.measured._replace(runs=(row.measured.runs[0]._replace(prefix_hit_ratio=0.5),))
        )
        for row in trial.rows
    ]
    lines = text(trial._replace(rows=tuple(rows))).splitlines()
    assert "hits" in lines[2].split()
    assert [line.split()[-2] for line in lines[4:12]] == ["-", "50.0"] * 4
