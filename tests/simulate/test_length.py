"""How long runs are, what of them warms up, and whether the queue still grew."""

from __future__ import annotations

import pytest

from lbgen.simulate.load.named import workload
from lbgen.simulate.load.request import Request
from lbgen.simulate.load.workload import sizes
from lbgen.simulate.runs.clock import Simulation
from lbgen.simulate.runs.result import Figures
from lbgen.simulate.runs.run import Task, run
from lbgen.simulate.runs.statistics import grows
from lbgen.simulate.runs.tally import Edges
from lbgen.simulate.servers.capacity import capacity, longest_answer_s, usual_requests
from lbgen.simulate.servers.step_times.profiles import PROFILES
from lbgen.simulate.sizing.needed import EDGES, LONGEST
from tests.simulate.runs import setup

EIGHT = setup("least_conn", 8, PROFILES["h100-8b"])
FOUR = setup("least_conn")


def bimodal(servers: object, load: float, requests: int, seed: int = 1) -> Figures:
    made = workload("bimodal")
    rate = load * capacity(servers, sizes(made))  # type: ignore[arg-type]
    return run(Task(servers, made, rate, requests, seed))  # type: ignore[arg-type]


def test_eight_fast_servers_need_more_than_ten_thousand_requests() -> None:
    """At a load of 0.8 answers' P99 is 43.2 s; 10,000 requests gave 33.7 s."""
    made = workload("bimodal")
    rate = 0.8 * capacity(EIGHT, sizes(made))
    count = usual_requests(EIGHT, made, rate)
    assert 50_000 < count < 120_000
    assert longest_answer_s(PROFILES["h100-8b"], sizes(made), rate / 8) == pytest.approx(44, rel=0.1)
    short = bimodal(EIGHT, 0.8, 10_000)
    assert not short.steady
    assert (short.e2e_s.p99 or 0) < 36


@pytest.mark.slow
def test_a_run_of_usual_length_has_the_percentiles_of_a_long_one() -> None:
    made = workload("bimodal")
    rate = 0.8 * capacity(EIGHT, sizes(made))
    found = run(Task(EIGHT, made, rate, usual_requests(EIGHT, made, rate), 1))
    assert found.steady
    assert found.e2e_s.p99 == pytest.approx(43.2, rel=0.03)


def test_a_run_has_at_least_a_hundred_requests_for_each_server() -> None:
    many = setup("least_conn", 300)
    assert usual_requests(many, workload("fixed:output=1"), 1.0) == 30_000
    assert usual_requests(FOUR, workload("agents:sessions=8,turns=6"), 1.0) == 400
    assert usual_requests(FOUR, workload("agents"), 1.0) == 4 * 64 * 12


@pytest.mark.parametrize("load", [0.5, 0.9])
def test_a_stable_run_is_steady_and_an_overloaded_one_is_not(load: float) -> None:
    assert all(bimodal(FOUR, load, 6000, seed).steady for seed in (1, 2))
    assert not any(bimodal(FOUR, load + 0.7, 3000, seed).steady for seed in (1, 2))


def test_clients_that_wait_let_no_queue_grow() -> None:
    made = workload("agents:sessions=40,turns=6")
    assert run(Task(setup("least_conn", 1, PROFILES["plain-prompts"]), made, 1.0, 240, 1)).steady


def test_growth_has_to_be_certain_and_large() -> None:
    noise = [0.3, -0.2, 0.1, -0.4, 0.2, 0.1, -0.3, 0.4, -0.1, 0.0]
    assert grows([10 + index + one for index, one in enumerate(noise)])
    assert not grows([10 + one for one in noise])
    assert not grows([10 - index for index in range(10)])
    assert not grows([100 + index for index in range(10)])  # certain, and 9 %
    assert not grows([10, 12, 8, 30, 9, 11, 40, 10, 9, 50])  # large, and perhaps chance
    assert not grows([1.0, 2.0])


def test_latencies_are_those_behind_the_warm_up() -> None:
    """The first tenth finds an idle server; what comes then waits."""
    made = workload("fixed:prompt=1,output=100,arrivals=even")
    slow = setup("least_conn", 1).servers[0].profile.with_slots(1)
    found = run(Task(setup("least_conn", 1, slow), made, 2.0, 100, 1))
    service = 100 * (slow.step + slow.per_request)
    waits = [max(0.0, number * (service - 0.5)) for number in range(100)]
    assert found.ok == 100
    assert found.e2e_s.mean == pytest.approx(sum(waits[10:]) / 90 + service, rel=0.01)


def test_latencies_are_those_of_requests_in_the_middle() -> None:
    """Ten that come every two minutes, each longer than the last: the first two and last three are out."""
    made = setup("round_robin", 1)
    requests = [Request(120.0 * number, 0, 100 * (number + 1)) for number in range(10)]
    tally = Simulation(made, 1, None, 10, Edges(0.2, 0.3)).run(requests)
    assert tally.ok == 10
    step = 0.00725
    assert tally.e2e.curve(5) == pytest.approx([step * 100 * number for number in (3, 4, 5, 6, 7)])


def test_the_middle_of_a_short_run_is_what_a_long_one_shows() -> None:
    """P99 of answers is 44.1 s in runs of 400,000 requests: without its edges a short run comes near."""
    made = workload("bimodal")
    rate = 0.8 * capacity(EIGHT, sizes(made))
    count = usual_requests(EIGHT, made, rate, LONGEST)
    assert count < 40_000
    found = run(Task(EIGHT, made, rate, count, 1, edges=EDGES))
    assert found.e2e_s.p99 == pytest.approx(44.1, rel=0.1)
