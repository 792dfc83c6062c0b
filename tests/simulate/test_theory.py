"""The simulator against what queueing theory knows exactly."""

from __future__ import annotations

from math import factorial
from random import Random

import pytest

from lbgen.simulate.load.workload import Bimodal, Exponential, Workload
from lbgen.simulate.runs.clock import Simulation
from lbgen.simulate.runs.statistics import interval
from lbgen.simulate.runs.tally import Tally
from lbgen.simulate.servers.setup import Detection, Incident, QueueSetup, Setup
from lbgen.simulate.servers.step_times.profiles import Profile
from tests.simulate.runs import run, setup

TOKEN_S = 0.001
FIFO = Profile("fifo", "one at a time", step=TOKEN_S, per_request=0.0, slots=1, prefix_cache=False)
SHARING = Profile("ps", "all at once", step=0.0, per_request=TOKEN_S, slots=10**6, prefix_cache=False)
EXPONENTIAL = Exponential({"output": 1000})
BIMODAL = Bimodal({})
BIMODAL_MEAN = 417 * TOKEN_S


def confirm(made: Setup, workload: Workload, rate: float, theory: float, count: int = 12_000) -> None:
    """Check the mean sojourn time: theory has to lie within a 99 % interval of ten runs, a narrow one."""
    means = [run(made, workload, rate, count, seed).e2e.mean() or 0.0 for seed in range(10)]
    mean, half = interval(means)
    assert half is not None
    wide = half * 3.25 / 2.262  # from 95 % to 99 % at nine degrees of freedom
    assert abs(mean - theory) < wide
    assert wide < 0.15 * theory


def test_one_server_first_come_first_served() -> None:
    confirm(setup("round_robin", 1, FIFO), EXPONENTIAL, 0.7, 1 / (1 - 0.7))


def test_one_server_shared_by_all() -> None:
    confirm(setup("round_robin", 1, SHARING), EXPONENTIAL, 0.7, 1 / (1 - 0.7))


def test_sharing_does_not_care_for_the_shape_of_the_service_times() -> None:
    confirm(setup("round_robin", 1, SHARING), BIMODAL, 0.7 / BIMODAL_MEAN, BIMODAL_MEAN / (1 - 0.7))


def test_first_come_first_served_pays_for_the_variance() -> None:
    """Pollaczek and Khinchine: the wait is rate * E[S²] / (2 (1 - load))."""
    squares = 0.7 * (60**2 + (81**2 - 1) / 12) + 0.3 * (1250**2 + (1501**2 - 1) / 12)
    rate = 0.7 / BIMODAL_MEAN
    wait = rate * squares * TOKEN_S**2 / (2 * (1 - 0.7))
    confirm(setup("round_robin", 1, FIFO), BIMODAL, rate, wait + BIMODAL_MEAN)


def test_four_servers_behind_one_queue() -> None:
    """Erlang's C for four servers at a load of 0.8."""
    offered, servers = 3.2, 4
    tail = offered**servers / factorial(servers) / (1 - offered / servers)
    waits = tail / (sum(offered**k / factorial(k) for k in range(servers)) + tail)
    theory = 1 + waits / (servers - offered)
    assert theory == pytest.approx(1.746, abs=0.001)
    confirm(setup("least_conn", 4, FIFO, cap=1), EXPONENTIAL, 3.2, theory)


def test_round_robin_before_four_servers_is_worse_than_one_queue_and_better_than_four() -> None:
    """Every fourth of a Poisson stream is less bursty than a Poisson stream: between M/M/1 and M/M/4."""
    mean = run(setup("round_robin", 4, FIFO), EXPONENTIAL, 3.2, 60_000).e2e.mean()
    assert mean is not None
    assert 1.746 * 1.2 < mean < 5.0 * 0.95


class Counting(Tally):
    """Adds up the requests in flight over time, on its own."""

    total, flying, since = 0.0, 0, 0.0

    def change(self, now: float, before: int, by: int) -> None:
        self.total += self.flying * (now - self.since)
        self.since, self.flying = now, self.flying + by
        super().change(now, before, by)


@pytest.mark.parametrize("strategy", ["round_robin", "least_conn", "random_two", "session", "prefix", "pack"])
def test_littles_law(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests in flight are their rate times their time there, whatever the strategy."""
    monkeypatch.setattr("lbgen.simulate.runs.clock.Tally", Counting)
    tally = run(setup(strategy), BIMODAL, 25.0, 5_000)
    assert isinstance(tally, Counting)
    in_flight = tally.total / tally.duration_s
    rate = tally.ok / tally.duration_s
    assert in_flight == pytest.approx(rate * (tally.e2e.mean() or 0), rel=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_every_request_has_one_end(seed: int) -> None:
    """Whatever happens: what came in went out, answered or refused, and nothing is left anywhere."""
    dice = Random(seed)
    made = setup(
        dice.choice(["round_robin", "least_conn", "random_two", "prefix", "session", "pack"]),
        target=dice.choice([None, "haproxy"]),
        cap=dice.choice([None, 3, 20]),
        balancers=dice.choice([1, 3]),
        queue=dice.choice([None, QueueSetup(5, 1.0), QueueSetup(50, 20.0, shortest_first=True)]),
        detection=Detection(dice.choice([None, 1.0]), 1.0, dice.choice([0, 3]), 2.0),
        stale_s=dice.choice([0.0, 0.5]),
        incidents=(
            Incident(5.0, "gpu-0", "fail"), Incident(8.0, "gpu-1", "drain"),
            Incident(20.0, "gpu-0", "recover"), Incident(25.0, "gpu-1", "undrain"),
            Incident(30.0, "gpu-2", "fail"),
        ),
    )  # fmt: skip
    simulation = Simulation(made, seed)
    tally = simulation.run(BIMODAL.requests(seed, 30.0, 2_000))
    assert tally.arrived == tally.ok + sum(tally.errors.values()) == 2_000
    assert tally.open == 0
    assert [server.in_flight for server in simulation.servers] == [0, 0, 0, 0]
