"""Workloads from YAML files, and clients that wait for their answers."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from random import Random
from statistics import mean, quantiles

import pytest

from lbgen.cli.guard import run
from lbgen.problems import FleetError
from lbgen.simulate.load.closed import Closed
from lbgen.simulate.load.workload import Bimodal, Fixed
from lbgen.simulate.load.workload_file import drawn, read_workload
from tests.simulate.runs import run as simulated
from tests.simulate.runs import setup

SMALLEST = str(Path(__file__).parents[2] / "examples" / "smallest.yaml")
MIXED = """
name: mixed
classes:
  - {share: 3, prompt: {lognormal: {median: 300, p99: 4000}}, output: 10}
  - share: 1
    prompt: 100
    output: {uniform: [500, 2000]}
    prefixes: {count: 4, tokens: 2048}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "load.yaml"
    path.write_text(text)
    return path


def test_classes_come_in_their_shares(tmp_path: Path) -> None:
    load = read_workload(written(tmp_path, MIXED))
    assert load.name == "mixed"
    requests = list(load.requests(1, 10, 8000))
    long = [one for one in requests if one.output_tokens >= 500]
    assert len(long) / len(requests) == pytest.approx(0.25, rel=0.06)
    assert mean(one.output_tokens for one in long) == pytest.approx(1250, rel=0.03)
    assert len({one.prefix for one in long}) == 4
    assert {len(one.chunks) for one in long} == {32}
    assert {one.prompt_tokens for one in long} == {2148}
    assert all(one.output_tokens == 10 and not one.chunks for one in requests if one not in long)
    assert requests[-1].arrived == pytest.approx(800, rel=0.1)
    again = pickle.loads(pickle.dumps(load)).requests(1, 10, 5)
    assert [one.arrived for one in again] == [one.arrived for one in requests[:5]]


def test_distributions_have_the_figures_that_were_written() -> None:
    dice = Random(1)
    tokens = [drawn({"lognormal": {"median": 300, "p99": 4000}}, dice) for _ in range(20_000)]
    cuts = quantiles(tokens, n=100)
    assert cuts[49] == pytest.approx(300, rel=0.05)
    assert cuts[98] == pytest.approx(4000, rel=0.1)
    assert mean(drawn({"exponential": 200}, dice) for _ in range(20_000)) == pytest.approx(200, rel=0.05)
    assert {drawn({"uniform": [3, 5]}, dice) for _ in range(100)} == {3, 4, 5}


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("classes:\n  - {share: -1, output: 5}\n", 2, 13, "-1 is not from"),
        ("classes:\n  - {output: lots}\n", 2, 14, "not the string lots"),
        ("classes:\n  - {output: {uniform: [9, 2]}}\n", 2, 24, "write [least, most]"),
        ("classes:\n  - {output: {uniform: [9]}}\n", 2, 24, "write [least, most]"),
        ("classes:\n  - {output: {lognormal: {median: 9, p99: 2}}}\n", 2, 26, "below the median"),
        ("classes:\n  - {output: 5, ouput: 6}\n", 2, 17, "there is no key 'ouput'"),
        ("classes: [{output: 5}]\narrivals: poison\n", 2, 11, "'poison' is not one of"),
        ("name: x\n", 1, 1, "the file needs the key 'classes'"),
        ("classes: [\n", 1, 10, ""),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    tmp_path: Path, text: str, line: int, column: int, words: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(FleetError) as caught:
        read_workload(path)
    problem = caught.value.problems[0]
    assert problem.location == (str(path), line, column)
    assert words in problem.message


def test_a_closed_loop_has_never_more_requests_than_clients() -> None:
    tally = simulated(setup("least_conn"), Closed(Bimodal({}), 12, 0.0), 0, 500)
    assert (tally.arrived, tally.ok) == (500, 500)
    in_flight = [sum(values) for values in zip(*tally.series.averages(60), strict=True)]
    assert max(in_flight) <= 12 + 1e-9
    assert in_flight[10] == pytest.approx(12)  # nobody thinks


def test_thinking_follows_the_law_of_the_closed_loop() -> None:
    """Clients = rate * (answer + thinking): Little's law for the whole loop."""
    clients, think = 40, 5.0
    tally = simulated(setup("least_conn"), Closed(Fixed({"output": 200}), clients, think), 0, 8000)
    answer = tally.e2e.mean()
    assert answer is not None
    rate = tally.ok / tally.duration_s
    assert rate * (answer + think) == pytest.approx(clients, rel=0.03)


def test_the_command_takes_files_and_clients(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--requests", "300", "--seed", "1", "--seed", "2", "--format", "json"]
    path = written(tmp_path, MIXED + "closed_loop: {clients: 9, think: 1s}\n")
    assert run(["simulate", SMALLEST, "--workload", str(path), *quick]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["workload"]["name"] == "mixed, 9 clients thinking 1 s"
    assert found["workload"]["rate_per_s"] > 0
    assert found["stable"] is True


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--think", "1s"], "say how many"),
        (["--clients", "3", "--rate", "5"], "does not apply to clients that wait"),
        (["--clients", "3", "--load", "0.5"], "does not apply to clients that wait"),
        (["--clients", "3", "--find-capacity", "ttft_p99<2s"], "does not apply to clients that wait"),
        (["--clients", "3", "--think", "long"], "--think: 'long' is not a duration"),
        (["--clients", "3", "--workload", "chat"], "of its own"),
        (["--workload", "nowhere.yaml"], "cannot be read"),
    ],
)
def test_clients_that_make_no_sense(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", SMALLEST, *words]) == 2
    assert text in capsys.readouterr().err
