"""``lbgen size``: the least number of servers that keeps an objective, and what its neighbours do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from lbgen.cli.guard import run
from lbgen.problems import LbgenError
from lbgen.simulate.sizing.narrow import least
from lbgen.simulate.sizing.prices import price_of

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

SMALLEST = str(Path(__file__).parents[2] / "examples" / "smallest.yaml")
QUICK = ("--requests", "1500", "--seed", "1", "--seed", "2", "--seed", "3")
ALIKE = ("--workload", "fixed:output=100", "--slots", "4")
"""A server carries 4 answers in 0.74 s: 5.4 a second."""

Asked = tuple[int, str, str]


@pytest.fixture
def size(capsys: pytest.CaptureFixture[str]) -> Callable[..., Asked]:
    def call(*words: str, fleet: str = SMALLEST) -> Asked:
        code = run(["size", fleet, *words])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def asked(size: Callable[..., Asked]) -> Callable[..., dict[str, Any]]:
    def call(*words: str, code: int = 0, **values: str) -> dict[str, Any]:
        found, out, err = size("--format", "json", *words, **values)
        assert found == code, err
        answer = json.loads(out)
        assert isinstance(answer, dict)
        return answer

    return call


@pytest.mark.parametrize("guess", [1, 7, 12, 13, 14, 60, 100])
@pytest.mark.parametrize("answer", [1, 2, 13, 99, 100])
def test_the_least_number_is_found_from_any_guess(guess: int, answer: int) -> None:
    tried: list[int] = []

    def met(number: int) -> bool:
        tried.append(number)
        return number >= answer

    assert least(met, guess, 1, 100) == answer
    assert len(tried) == len(set(tried))
    assert set(tried) <= set(range(1, 101))
    assert guess != answer or len(tried) <= 2


def test_a_number_that_is_not_there_and_one_that_need_not_be_exact() -> None:
    assert least(lambda _: False, 5, 1, 40) is None
    assert 1_000 <= (least(lambda number: number >= 1_000, 300, 1, 4_000, 0.02) or 0) <= 1_020


def test_servers_grow_with_the_rate_and_never_fall_below_what_they_carry(
    asked: Callable[..., dict[str, Any]],
) -> None:
    found = {}
    for rate in ("20", "60"):
        answer = asked("--objective", "ttft_p99<500ms", "--rate", rate, *ALIKE, *QUICK)
        rows = {row["strategy"]: row for row in answer["pools"][0]["needed"]}
        found[rate] = rows["least_conn"]
    assert found["20"]["servers"] < found["60"]["servers"]
    for rate, row in found.items():
        curve = {step["servers"]: step for step in row["curve"]}
        assert float(rate) / row["servers"] < 4 / 0.74
        assert curve[row["servers"]]["met"]
        assert curve[row["servers"]]["value"] < 0.5
        fewer = curve.get(row["servers"] - 1)
        assert fewer is None or not fewer["met"] or fewer["load"] >= 1
        assert row["low"] <= row["servers"] <= row["high"]
        values = [curve[number]["value"] for number in sorted(curve)]
        assert values == sorted(values, reverse=True)


def test_a_strategy_saves_servers(asked: Callable[..., dict[str, Any]]) -> None:
    words = ("--objective", "queue_p99<200ms", "--rate", "30", "--slots", "4", *QUICK)
    answer = asked(*words, "--strategy", "round_robin")
    rows = {row["strategy"]: row for row in answer["pools"][0]["needed"]}
    assert rows["least_conn"]["servers"] < rows["round_robin"]["servers"]
    assert rows["round_robin"]["saves"] == rows["least_conn"]["servers"] - rows["round_robin"]["servers"]
    assert rows["least_conn"]["saves"] == 0


def test_one_that_dies_is_made_up_for_by_one_more(asked: Callable[..., dict[str, Any]]) -> None:
    answer = asked("--objective", "ttft_p99<500ms", "--rate", "40", *ALIKE, *QUICK)
    (row,) = [row for row in answer["pools"][0]["needed"] if row["present"]]
    first, second = row["one_dies"]
    assert (first["servers"], second["servers"]) == (row["servers"], row["servers"] + 1)
    assert first["failed"] > 0
    assert first["value"] > second["value"]


def test_what_idle_servers_do_not_keep_is_never_kept(size: Callable[..., Asked]) -> None:
    code, out, _ = size("--objective", "e2e_p50<10ms", "--rate", "40", *QUICK)
    assert code == 1
    assert "not even idle ones" in out
    assert "never" in out


def test_sessions_that_wait_have_no_rate(size: Callable[..., Asked]) -> None:
    words = ("--workload", "agents:sessions=12,turns=3", "--profile", "plain-prompts", *QUICK)
    code, out, err = size("--objective", "ttft_p99<2s", "--strategy", "least_conn", *words)
    assert code == 0, err
    assert re.search(r"1 server \(.*\) is needed|[2-9] servers \(.*\) are needed", " ".join(out.split()))
    code, _, err = size("--objective", "ttft_p99<2s", "--rate", "3", *words)
    assert code == 2
    assert "does not apply to clients that wait" in err


def test_prices_name_the_cheapest_kind(
    size: Callable[..., Asked], asked: Callable[..., dict[str, Any]]
) -> None:
    words = ("--objective", "e2e_p99<40s", "--rate", "30", *QUICK, "--strategy", "least_conn")
    prices = ("--cost", "h100-8b=3/h", "--cost", "a100-8b=1.10")
    (pool,) = asked(*words, *prices)["pools"]
    costs = {row["profile"]: row["cost_per_hour"] for row in pool["needed"]}
    servers = {row["profile"]: row["servers"] for row in pool["needed"]}
    assert costs == {"h100-8b": 3 * servers["h100-8b"], "a100-8b": pytest.approx(1.1 * servers["a100-8b"])}
    code, out, _ = size(*words, *prices)
    assert code == 0
    best = min(costs, key=costs.__getitem__)
    assert f"Cheapest: {servers[best]} x {best}" in out


@pytest.mark.parametrize("text", ["h100-8b", "h100-8b=", "h100-8b=-1/h", "h100-8b=1/d", "h100-8b=nan", "x=1"])
def test_what_is_no_price(text: str) -> None:
    with pytest.raises(LbgenError, match="not a p"):
        price_of(text)


def test_too_few_servers_are_a_finding_when_asked_for(size: Callable[..., Asked]) -> None:
    words = ("--objective", "ttft_p99<500ms", *ALIKE, *QUICK, "--strategy", "least_conn", "--exit-code")
    assert size("--rate", "40", *words)[0] == 1  # three servers carry 16 a second
    assert size("--rate", "5", *words)[0] == 0


def test_a_rate_has_to_come_from_somewhere(size: Callable[..., Asked]) -> None:
    code, _, err = size("--objective", "ttft_p99<2s")
    assert code == 2
    assert "--rate" in err


def test_a_pool_of_several_kinds_is_looked_at_as_it_is(
    asked: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text('pools: {chat: {servers: ["old-[0-2]:8000", "new-[0-1]:8000"]}}\n')
    words = ("--profile", "old-*=a100-8b", "--profile", "new-*=h100-8b", "--strategy", "least_conn")
    (pool,) = asked("--objective", "e2e_p99<60s", "--rate", "20", *words, *QUICK, fleet=str(fleet))["pools"]
    assert [row["profile"] for row in pool["needed"]] == ["a100-8b", "h100-8b"]
    assert pool["servers_now"] == 5
    assert pool["now"]["met"]
    assert not pool["too_few"]
    few = ("--objective", "e2e_p99<60s", "--rate", "200", "--exit-code")
    assert not asked(*few, *words, *QUICK, fleet=str(fleet), code=1)["pools"][0]["now"]["met"]


def test_reports_have_a_curve_for_each_kind(size: Callable[..., Asked], tmp_path: Path) -> None:
    page, picture = tmp_path / "size.html", tmp_path / "size.svg"
    words = ("--objective", "ttft_p99<500ms", "--rate", "20", *ALIKE, *QUICK, "--strategy", "round_robin")
    assert size(*words, "--report", str(page))[0] == 0
    assert page.read_text().count('data-chart="servers"') == 1
    assert page.read_text().count('data-chart="servers-bars"') == 1
    assert "N+1" in page.read_text()
    assert size(*words, "--report", str(picture))[0] == 0
    root = ET.fromstring(picture.read_text())
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"round_robin", "least_conn", "objective"} <= set(texts)
