"""``lbgen simulate`` as users see it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lbgen import __version__
from lbgen.cli.guard import run
from lbgen.simulate.runs.run import run as run_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lbgen.simulate.runs.result import Figures
    from lbgen.simulate.runs.run import Task

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALLEST = str(EXAMPLES / "smallest.yaml")
QUICK = ("--requests", "400", "--seed", "1", "--seed", "2")

Outcome = tuple[int, str, str]


@pytest.fixture
def simulate(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def call(*words: str, fleet: str = SMALLEST) -> Outcome:
        code = run(["simulate", fleet, *words])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def asked(simulate: Callable[..., Outcome]) -> Callable[..., dict[str, Any]]:
    def call(*words: str, **values: str) -> dict[str, Any]:
        code, out, err = simulate("--format", "json", *words, **values)
        assert code == 0, err
        found = json.loads(out)
        assert isinstance(found, dict)
        return found

    return call


def fleet(folder: Path, text: str) -> str:
    path = folder / "fleet.yaml"
    path.write_text(text)
    return str(path)


def test_without_options_it_says_something_useful(simulate: Callable[..., Outcome]) -> None:
    code, out, err = simulate()
    assert code == 0
    assert "not your GPUs" in err
    assert "3 servers (plain, 32 slots)" in out
    assert "load 0.80 of 26.16/s" in out
    assert "least_conn (present)" in out
    assert "Nothing here is significantly better than least_conn. Worse: round_robin." in out


def test_the_shape_of_the_contract(asked: Callable[..., dict[str, Any]]) -> None:
    found = asked("--strategy", "least_conn", "--rate", "20", *QUICK)
    assert found["kind"] == "simulate"
    assert found["pool"] == "chat"
    assert found["workload"] == {"name": "bimodal", "rate_per_s": 20, "requests": 400, "seeds": [1, 2]}
    (result,) = found["results"]
    assert (result["strategy"], result["target"]) == ("least_conn", None)
    assert (result["requests"], result["ok"], result["errors"]) == (800, 800, {})
    for name in ("ttft_s", "e2e_s", "queue_s"):
        spread = result[name]
        assert set(spread) == {"mean", "p50", "p90", "p95", "p99"}
        assert 0 <= spread["p50"] <= spread["p90"] <= spread["p95"] <= spread["p99"]
    assert result["prefix_hit_ratio"] is None
    assert result["load_stdev"] > 0
    assert [server["name"] for server in result["servers"]] == ["gpu-0", "gpu-1", "gpu-2"]
    assert sum(server["requests"] for server in result["servers"]) == 800


def test_results_come_in_the_order_asked_for_and_the_present_strategy_last(
    asked: Callable[..., dict[str, Any]],
) -> None:
    found = asked("--strategy", "p2c", "--strategy", "roundrobin", "--requests", "1000")
    assert [(r["strategy"], r["present"]) for r in found["results"]] == [
        ("random_two", False), ("round_robin", False), ("least_conn", True),
    ]  # fmt: skip
    compared = {one["metric"]: one for one in found["results"][1]["difference_to_present"]}
    assert compared["load_stdev"]["significant"] is True
    assert compared["load_stdev"]["low"] > 0
    assert found["results"][2]["difference_to_present"] == []


def test_the_same_command_gives_the_same_bytes(simulate: Callable[..., Outcome]) -> None:
    words = ("--format", "json", "--strategy", "random_two", *QUICK)
    assert simulate(*words) == simulate(*words)


def test_alike_strategies_are_not_told_apart(simulate: Callable[..., Outcome]) -> None:
    _, out, _ = simulate("--strategy", "random_two", "--load", "0.2", "--workload", "fixed", *QUICK)
    assert "first token P99" not in out.split("against", 1)[1]
    _, out, _ = simulate("--strategy", "random_two", "--requests", "300", "--seed", "1")
    assert "one seed cannot tell a difference from chance" in out


def test_too_much_load_is_named_and_the_run_ends(simulate: Callable[..., Outcome]) -> None:
    code, out, _ = simulate("--load", "1.5", *QUICK)
    assert code == 0
    assert "Unstable: 1.50 times what the servers can carry" in out


def test_targets_choose_in_their_own_ways(asked: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    path = fleet(tmp_path, "pools: {chat: {servers: 'g[0-1]:80', max_in_flight: 2, queue: {size: 500}}}\n")
    found = asked("-t", "nginx", "-t", "haproxy", "--strategy", "least_conn", *QUICK, fleet=path)
    nginx, haproxy = found["results"]
    assert (nginx["target"], haproxy["target"]) == ("nginx", "haproxy")
    assert nginx["errors"]["full"] > 0  # NGINX has no queue
    assert haproxy["queue_s"]["p99"] > 1
    assert all(server["max_in_flight"] == 2 for one in (nginx, haproxy) for server in one["servers"])


def test_what_a_target_cannot_do_is_simulated_and_marked(simulate: Callable[..., Outcome]) -> None:
    code, out, _ = simulate("--strategy", "kv_cache", *QUICK)
    assert code == 0
    assert "kv_cache [not on nginx" in out
    assert "kv_cache is not available on nginx" in out


def test_a_fleet_that_its_targets_refuse_can_be_simulated(
    simulate: Callable[..., Outcome], tmp_path: Path
) -> None:
    path = fleet(tmp_path, "pools: {chat: {strategy: kv_cache, servers: 'g[0-1]:80'}}\n")
    code, out, _ = simulate(*QUICK, fleet=path)
    assert code == 0
    assert "kv_cache (present) [not on nginx" in out


def test_several_balancers_share_the_caps(asked: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    path = fleet(tmp_path, "balancers: 4\npools: {chat: {servers: 'g[0-1]:80', max_in_flight: 8}}\n")
    found = asked("--strategy", "least_conn", "--load", "2", *QUICK, fleet=path)
    assert {server["max_in_flight"] for server in found["results"][0]["servers"]} == {8}


def test_a_pool_without_a_server_in_rotation(simulate: Callable[..., Outcome], tmp_path: Path) -> None:
    path = fleet(tmp_path, "pools: {chat: {allow_empty: true, servers: [{address: 'g:80', state: down}]}}\n")
    code, _, err = simulate(*QUICK, fleet=path)
    assert code == 2
    assert "no server of the pool chat is in rotation" in err


def test_servers_of_two_classes(simulate: Callable[..., Outcome]) -> None:
    path = str(EXAMPLES / "two-gpu-classes.yaml")
    code, out, _ = simulate(
        "--profile", "a100-8b", "--profile", "h100-*=h100-8b", "--requests", "300", "--seed", "1", fleet=path
    )
    assert code == 0
    assert "2 x h100-8b" in out
    assert "a100-8b, 256 slots (backup)" in out


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--rate", "-1"), 2, "has to be above 0"),
        (("--rate", "nan"), 2, "has to be above 0"),
        (("--load", "0"), 2, "has to be above 0"),
        (("--load", "inf"), 2, "has to be above 0"),
        (("--rate", "1", "--load", "1"), 2, "use one of them"),
        (("--report", "x.png"), 2, "--report: name it FILE.html or FILE.svg"),
        (("--report", ""), 2, "--report names no file"),
        (("--strategy", "least_con"), 2, "did you mean least_conn"),
        (("--workload", "bimodel"), 2, "did you mean bimodal"),
        (("--profile", "h200"), 2, "is not a profile"),
        (("--pool", "chatt"), 2, "did you mean chat"),
        (("--requests", "0"), 2, "0 is not in the range"),
    ],
)
def test_what_makes_no_sense_is_refused(
    simulate: Callable[..., Outcome], words: tuple[str, ...], code: int, text: str
) -> None:
    found, out, err = simulate(*words)
    assert (found, out) == (code, "")
    assert text in err


def test_a_bad_trace_row_is_a_finding(simulate: Callable[..., Outcome], tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time,prompt_tokens,output_tokens\n0,1,2\n1,x,2\n2,3,4\n")
    code, _, err = simulate("--workload", str(path))
    assert code == 1
    assert f"{path}:3:3: error[bad-trace-row]" in err
    code, _, err = simulate("--workload", str(path), "--skip-bad-rows", *QUICK)
    assert code == 0
    assert "1 bad rows left out" in err


def test_the_rate_that_an_objective_allows(asked: Callable[..., dict[str, Any]]) -> None:
    words = ("--strategy", "least_conn", "--slots", "4", "--workload", "fixed:output=100", *QUICK)
    strict = asked("--find-capacity", "queue_p99<50ms", *words)["results"][0]["capacity_at_objective_per_s"]
    lax = asked("--find-capacity", "queue_p99 < 1s", *words)["results"][0]["capacity_at_objective_per_s"]
    never = asked("--find-capacity", "ttft_p50<1ms", *words)["results"][0]["capacity_at_objective_per_s"]
    assert 0 == never < strict < lax


@pytest.mark.parametrize("text", ["ttft_p98<2s", "ttft_p99>2s", "ttft_p99<2m", "ttft_p99", "errors<1"])
def test_what_is_no_objective(simulate: Callable[..., Outcome], text: str) -> None:
    code, _, err = simulate("--find-capacity", text, *QUICK)
    assert code == 2
    assert "is not an objective" in err


def test_the_agent_fits_weights_to_the_memory_of_the_servers(asked: Callable[..., dict[str, Any]]) -> None:
    """Two GPU classes, one of which holds half as much: kv_cache sends it fewer requests in flight."""
    words = (
        "--profile",
        "a100-8b",
        "--profile",
        "gpu-0=h100x4-70b",
        "--workload",
        "fixed:prompt=9000,output=300",
    )
    results = asked("--strategy", "kv_cache", "--strategy", "least_conn", *words, *QUICK)["results"]
    flying = {r["strategy"]: [server["mean_in_flight"] for server in r["servers"]] for r in results}
    assert flying["kv_cache"] != flying["least_conn"]


def test_a_server_that_fails_costs_requests(asked: Callable[..., dict[str, Any]]) -> None:
    words = ("--strategy", "least_conn", "--rate", "20", *QUICK)
    (calm,) = asked(*words)["results"]
    (hit,) = asked("--incident", "10s:gpu-1:fail", *words)["results"]
    assert calm["errors"] == {}
    assert hit["errors"]["reset"] >= 2
    assert hit["servers"][1]["requests"] < calm["servers"][1]["requests"]


@pytest.mark.parametrize("text", ["10s:gpu-7:fail", "10s:gpu-0:explode", "soon:gpu-0:fail", "fail"])
def test_what_is_no_incident(simulate: Callable[..., Outcome], text: str) -> None:
    code, _, err = simulate("--incident", text, *QUICK)
    assert code == 2
    assert f"--incident {text}" in err


def test_the_report_is_one_page_that_needs_nothing_else(
    simulate: Callable[..., Outcome], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    code, out, err = simulate("--report", str(path), *QUICK)
    assert code == 0, err
    text = path.read_text()
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text
    assert "<script" not in text
    assert re.findall(r'data-chart="([^"]+)"', text) == [
        "ttft-bars",
        "e2e-bars",
        "ttft",
        "e2e",
        *["over-time"] * 3,
    ]
    curves = re.findall(r'<polyline class="curve [sv]\d" stroke-width="[\d.]+" points="([^"]+)"', text)
    assert len(curves) == 6 + 9  # two charts of three strategies, and three strategies with three servers
    for curve in curves[:6]:
        points = [tuple(map(float, point.split(","))) for point in curve.split()]
        assert len(points) == 200
        assert points == sorted(points, key=lambda point: (point[0], -point[1]))
        assert all(58 <= x <= 344 and 8 <= y <= 190 for x, y in points)
    for cell in out.splitlines()[4].split("  "):
        assert cell.strip() in text
    marks = re.findall(r'<circle class="dot (s\d)"', text)
    assert len(marks) == 2 * 2 * 3  # the P50 and the P99 of three strategies, in two charts


def test_the_report_begins_with_bars_of_what_decides(
    simulate: Callable[..., Outcome], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    code, out, err = simulate("--report", str(path), "--seed", "1", "--seed", "2", *QUICK)
    assert code == 0, err
    text = path.read_text()
    words = text[text.index('class="words"') :]
    assert words.index("least_conn") < words.index("99 of 100")  # the verdict, then what clients notice
    bars = text.split('data-chart="e2e-bars"')[1].split("</svg>")[0]
    assert bars.count('<path class="error"') == bars.count("<rect") == 3
    line = next(line for line in out.splitlines() if line.startswith("least_conn (present)"))
    p99 = line.split()[-3]
    assert re.search(rf">least_conn: {p99} s ± [\d.]+ m?s<", bars)


def test_the_values_of_a_report_are_seen_without_a_script(
    simulate: Callable[..., Outcome], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    _, out, _ = simulate("--report", str(path), "--requests", "4000", "--seed", "1")
    chart = path.read_text().split('data-chart="e2e"')[1].split("</svg>")[0]
    (said,) = re.findall(r"<title>P99\n([^<]+)</title>", chart)
    told = dict(line.split(": ") for line in said.splitlines())
    for line in out.splitlines():
        if line.split(" ")[0] in told and "against" not in line:
            shown = float(told[line.split(" ")[0]].split(" ")[0])
            assert shown == pytest.approx(float(line.split()[-3].rstrip("*")), rel=0.05)


def test_a_strategy_has_one_colour_whatever_it_is_compared_with(
    simulate: Callable[..., Outcome], tmp_path: Path
) -> None:
    found = set()
    for others in ("round_robin", "random_two"):
        path = tmp_path / f"{others}.html"
        simulate("--report", str(path), "--strategy", others, "--strategy", "least_conn", *QUICK)
        chart = path.read_text().split('data-chart="ttft"')[1]
        found |= {cls for cls, name in re.findall(r'"curve ([^"]+)"[^>]*><title>([^<]+)', chart)
                  if name == "least_conn"}  # fmt: skip
    assert len(found) == 1


@pytest.mark.parametrize("epoch", ["99999999999999", "soon", "\u00b2"])
def test_a_date_that_is_none_is_told_before_the_work(
    simulate: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: str
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    code, out, err = simulate("--report", str(tmp_path / "report.html"), *QUICK)
    assert (code, out) == (2, "")
    assert "SOURCE_DATE_EPOCH" in err


def test_a_report_says_where_it_comes_from(
    simulate: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    path = tmp_path / "report.html"
    guarded = "--set=listeners.default.auth={clients: all}"
    code, _, err = simulate("--set", "clients.team.key=env:NO_KEY", guarded, "--report", str(path), *QUICK)
    assert code == 0, err
    text = path.read_text()
    command = unescape(re.findall(r"<dd><code>(.*?)</code>", text)[0])
    assert command.startswith("lbgen simulate ")
    assert "--set clients.team.key=... --set=listeners.default.auth=... --report" in command
    assert f"2023-11-14 22:13 UTC by lbgen {__version__}" in text
    assert re.search(r"digest [0-9a-f]{12}<", text)
    assert "NO_KEY" not in text  # a key could stand there


def test_a_report_over_several_loads_shows_latency_against_load(
    simulate: Callable[..., Outcome], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    loads = ("--load", "1.2", "--load", "0.5", "--strategy", "round_robin")
    code, out, err = simulate(*loads, "--report", str(path), *QUICK)
    assert code == 0, err
    heading, loads_shown = out[out.index("first token P99, s, at a load of") :].splitlines()[:2]
    assert heading.endswith("at a load of")
    assert loads_shown.split()[-2:] == ["1.20", "0.50"]
    text = path.read_text()
    chart = text.split('data-chart="ttft-load"')[1].split("</svg>")[0]
    lines = re.findall(r'points="([^"]+)"', chart)
    assert len(lines) == 2  # two strategies
    for line in lines:
        (x0, y0), (x1, y1) = (map(float, point.split(",")) for point in line.split())
        assert (x0, x1) == (58, 344)  # from the lowest load to the highest
        assert y0 > y1  # and upwards
    assert chart.count("<circle") == 4
    assert "Unstable" in text


def test_results_of_several_loads_stand_side_by_side(asked: Callable[..., dict[str, Any]]) -> None:
    found = asked("--load", "0.5", "--load", "0.9", "--strategy", "round_robin", *QUICK)
    assert [(one["strategy"], one["load"]) for one in found["results"]] == [
        ("round_robin", 0.5), ("least_conn", 0.5), ("round_robin", 0.9), ("least_conn", 0.9),
    ]  # fmt: skip
    assert found["load"] is None
    assert found["workload"]["rate_per_s"] is None


def test_a_report_that_cannot_be_written(simulate: Callable[..., Outcome], tmp_path: Path) -> None:
    code, _, err = simulate("--report", str(tmp_path / "no" / "folder.html"), *QUICK)
    assert code == 2
    assert "cannot be written" in err


def test_what_is_finished_when_interrupted_is_kept() -> None:
    """The real program: SIGINT to it alone, while its processes are at work."""
    words = ["--load", "0.3", "--load", "0.9", "--strategy", "round_robin", "--requests", "5000"]
    command = [sys.executable, "-m", "lbgen", "simulate", SMALLEST, *words, "--format", "json"]
    seeds = [word for seed in range(2000) for word in ("--seed", str(seed))]
    screen, terminal = os.openpty()
    with subprocess.Popen(
        [*command, *seeds], cwd=EXAMPLES.parent, stdout=subprocess.PIPE, stderr=terminal
    ) as process:
        os.close(terminal)
        err = b""
        while not re.search(rb"\d\d/8000 runs", err):
            err += os.read(screen, 1000)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        found = json.load(process.stdout)
    with suppress(OSError):  # which is how a terminal ends
        while True:
            err += os.read(screen, 1000)
    os.close(screen)
    assert process.returncode == 130, err
    assert b"of 8000 runs are finished" in err
    assert b"Traceback" not in err
    seeds_done = len(found["workload"]["seeds"])
    assert 0 < seeds_done < 2000  # the others are not waited for
    assert all(one["requests"] == 5000 * seeds_done for one in found["results"])


def test_interrupted_runs_answer_for_what_is_there(simulate: Callable[..., Outcome]) -> None:
    """Three strategies at two loads over two seeds: five runs are one complete seed of the first load."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lbgen.cli.predict.simulate.sweep", lambda tasks: _until(5, tasks))
        code, out, err = simulate("--load", "0.5", "--load", "0.9", "--format", "json", *QUICK)
    assert code == 130
    assert "5 of 12 runs are finished" in err
    found = json.loads(out)
    assert [(one["strategy"], one["requests"]) for one in found["results"]] == [
        ("least_conn", 400), ("round_robin", 400), ("random_two", 400),
    ]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lbgen.cli.predict.simulate.sweep", lambda tasks: _until(0, tasks))
        assert simulate(*QUICK)[:2] == (130, "")


def _until(count: int, tasks: Sequence[Task]) -> Iterator[Figures]:
    for task in tasks[:count]:
        yield run_task(task)
    raise KeyboardInterrupt


def test_it_says_what_it_does_not_model(simulate: Callable[..., Outcome], tmp_path: Path) -> None:
    path = fleet(tmp_path, "pools: {e: {engine: tei, servers: [t:80]}, c: {servers: [g:80], standby: true}}")
    code, _, err = simulate("--pool", "e", "--requests", "200", "--profile", "h100-8b", fleet=path)
    assert code == 0
    assert "e generates no text" in err
    assert "one pool is simulated, e" in err
    assert "not your GPUs" not in err


def test_crowds_of_clients_are_swept(simulate: Callable[..., Outcome]) -> None:
    crowds = ("--clients", "8", "--clients", "200", "--strategy", "least_conn")
    code, out, _ = simulate(*QUICK, *crowds)
    assert code == 0
    assert re.search(r"first token P99, s, with so many clients\nstrategy\s+8\s+200", out)
    code, out, _ = simulate(*QUICK, *crowds, "--format", "json")
    answer = json.loads(out)
    few, many = answer["results"]
    assert (few["clients"], many["clients"]) == (8, 200)
    assert few["load"] < many["load"]
    assert few["ttft_s"]["p99"] < 0.1 < many["ttft_s"]["p99"]
    assert answer["workload"]["name"] == "bimodal"
