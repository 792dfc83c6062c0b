"""Reports of simulations and trials in a real browser: on a phone, on a desk, in the dark and on paper."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration import browser
from integration.browser import Seen, View
from lbgen.cli.guard import run
from lbgen.lab.trial.results.page import page as page_of_trial
from lbgen.render import builtin_templates
from lbgen.simulate.answers.report import Origin
from tests.trial.trials import made_up

if TYPE_CHECKING:
    from collections.abc import Callable

    Look = Callable[[View], Seen]

FLEET = Path(__file__).parents[1] / "examples" / "smallest.yaml"
LOADS = ("0.5", "0.8", "0.95")
STRATEGIES, SERVERS = 3, 3
FROM = Origin("lbgen trial fleet.yaml", "2026-11-30 20:00 UTC")
BARS = ["ttft-bars", "e2e-bars"]

MEASURE = """
(() => {
  const box = one => { const r = one.getBoundingClientRect(); return [r.width, r.height]; };
  const color = name => getComputedStyle(document.body)[name];
  return {
    wide: document.documentElement.scrollWidth,
    heading: document.querySelector('h1').textContent,
    words: document.querySelector('.words').getBoundingClientRect().top,
    ink: color('color'), paper: color('backgroundColor'),
    text: Math.min(...[...document.querySelectorAll('figure svg text')].map(t => box(t)[1])),
    tables: [...document.querySelectorAll('.scroll')].map(s => [s.scrollWidth, s.clientWidth]),
    clipped: [...document.querySelectorAll('figure > svg')].flatMap(svg => {
      const outer = svg.getBoundingClientRect();
      return [...svg.querySelectorAll('text')].filter(t => {
        const r = t.getBoundingClientRect();
        return r.left < outer.left - 1 || r.right > outer.right + 1 || r.bottom > outer.bottom + 1;
      }).map(t => t.textContent);
    }),
    charts: [...document.querySelectorAll('svg[data-chart]')].map(svg => ({
      kind: svg.dataset.chart, box: box(svg),
      lines: [...svg.querySelectorAll('polyline')].map(line => ({
        name: line.querySelector('title').textContent, box: box(line), points: line.points.length,
        length: line.getTotalLength(), stroke: getComputedStyle(line).stroke,
        dashes: getComputedStyle(line).strokeDasharray,
      })),
    })),
  };
})()
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report over three loads."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    loads = [word for load in LOADS for word in ("--load", load)]
    words = ["simulate", str(FLEET), *loads, "--requests", "2000", "--seed", "1", "--seed", "2"]
    assert run(["-q", *words, "--report", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def look(page: Path) -> Look:
    """Look at the report; skipped where there is no browser."""
    return _look_at(page)


def _look_at(page: Path) -> Look:
    if browser.program() is None:
        pytest.skip("chromium is missing: apt install chromium")

    def seen(view: View) -> Seen:
        found = browser.look(page, view, MEASURE)
        name = f"{page.stem}-{view.width}-{view.scheme}-{view.media}.png"
        (page.parent / name).write_bytes(found.picture)
        return found

    return seen


VIEWS = {
    "phone": View(390),
    "desk": View(1200),
    "dark": View(390, scheme="dark"),
    "paper": View(700, media="print"),
    "paper-from-dark": View(700, scheme="dark", media="print"),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_it_shows_everything_and_complains_of_nothing(look: Look, page: Path, view: View) -> None:
    seen = look(view)
    assert seen.complaints == []
    assert {url for url in seen.requests if not url.startswith("data:")} == {page.as_uri()}
    found = seen.value
    assert found["heading"] == "Strategies for the pool chat, predicted"
    assert found["words"] < 250  # the conclusion comes first
    assert found["wide"] <= view.width  # nothing sticks out sideways
    assert found["clipped"] == []
    assert found["text"] >= 8  # pixels: the axes can be read
    charts = [chart["kind"] for chart in found["charts"]]
    of_a_load = [*BARS, "ttft", "e2e", *["over-time"] * STRATEGIES]
    assert charts == ["ttft-load", "e2e-load", *of_a_load * len(LOADS)]
    for chart in found["charts"]:
        _drawn(chart)
    assert _picture_width(seen.picture) == view.width


def _drawn(chart: dict[str, Any]) -> None:
    width, height = chart["box"]
    assert width > 200
    if chart["kind"] in BARS:
        return
    assert height > 100
    assert len(chart["lines"]) == (SERVERS if chart["kind"] == "over-time" else STRATEGIES)
    points = {"ttft": 200, "e2e": 200, "over-time": 60}.get(chart["kind"], len(LOADS))
    assert len({line["stroke"] for line in chart["lines"]}) == len(chart["lines"])
    for line in chart["lines"]:
        assert line["points"] == points
        assert line["length"] > 50
        assert line["box"][0] <= width
        assert line["box"][1] <= height


def test_the_dark_is_dark_and_paper_is_white(look: Look) -> None:
    assert _brightness(look(VIEWS["dark"]).value["paper"]) < 60
    assert _brightness(look(VIEWS["dark"]).value["ink"]) > 200
    for name in ("desk", "paper", "paper-from-dark"):
        assert _brightness(look(VIEWS[name]).value["paper"]) > 250
        assert _brightness(look(VIEWS[name]).value["ink"]) < 60


def test_paper_has_no_table_that_is_cut_off(look: Look) -> None:
    for needed, there in look(VIEWS["paper"]).value["tables"]:
        assert needed <= there


@pytest.fixture(scope="module")
def trial_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a trial of two strategies on both targets."""
    path = tmp_path_factory.mktemp("trial") / "trial.html"
    path.write_text(page_of_trial(made_up(), builtin_templates(), FROM, ["load_stdev<1: does not hold"]))
    return path


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_trials_report_has_both_side_by_side(trial_page: Path, view: View) -> None:
    seen = _look_at(trial_page)(view)
    assert seen.complaints == []
    assert {url for url in seen.requests if not url.startswith("data:")} == {trial_page.as_uri()}
    found = seen.value
    assert found["heading"] == "Strategies for the pool chat, measured"
    assert found["wide"] <= view.width
    assert found["clipped"] == []
    rows = 4
    assert [chart["kind"] for chart in found["charts"]] == [*BARS, "ttft", "e2e", *["over-time"] * 2 * rows]
    for chart in found["charts"][2:4]:
        lines = chart["lines"]
        assert len({line["stroke"] for line in lines}) == rows / 2  # a strategy has one on both targets
        assert len({(line["stroke"], line["dashes"]) for line in lines}) == 2 * rows
        for predicted, measured in zip(lines[::2], lines[1::2], strict=True):
            assert predicted["stroke"] == measured["stroke"]
    before, after = (chart["box"] for chart in found["charts"][4:6])
    assert before == pytest.approx(after, abs=0.1)
    assert before[0] > 200


def _brightness(color: str) -> float:
    """Return the mean of ``rgb(1, 2, 3)``."""
    numbers = [float(word) for word in color.removeprefix("rgb(").removesuffix(")").split(",")]
    return sum(numbers) / 3


def _picture_width(png: bytes) -> int:
    width: int = struct.unpack(">I", png[16:20])[0]
    return width
