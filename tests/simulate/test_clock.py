"""The event loop: queues, caps, failures, and that everything can be repeated."""

from __future__ import annotations

import pytest

from lbgen.simulate.load.conversations import Chat
from lbgen.simulate.load.request import Request
from lbgen.simulate.load.workload import Bimodal, Fixed, Shared
from lbgen.simulate.runs.clock import Simulation
from lbgen.simulate.runs.run import Task, sweep
from lbgen.simulate.servers.setup import Detection, Incident, QueueSetup
from lbgen.simulate.servers.step_times.profiles import PROFILES
from tests.simulate.runs import run, setup

ONE = PROFILES["seed"].with_slots(1)


def at_once(count: int, tokens: int = 100, **values: int) -> list[Request]:
    return [Request(0.001 * number, 0, tokens, **values) for number in range(count)]


def test_the_same_seed_gives_the_same_bytes_on_one_core_and_on_two() -> None:
    tasks = [
        Task(setup(name), Bimodal({}), 25.0, 4_000, seed)
        for name in ("random_two", "least_conn")
        for seed in (1, 2, 3, 4, 5)
    ]
    alone, together = list(sweep(tasks, 1)), list(sweep(tasks, 2))
    assert repr(alone) == repr(together)
    assert alone[0] != alone[1]


def test_without_a_queue_full_servers_mean_refusal() -> None:
    tally = Simulation(setup("least_conn", 2, ONE, cap=1, queue=None), 1).run(at_once(5))
    assert (tally.ok, tally.errors) == (2, {"full": 3})


def test_a_queue_holds_so_many_and_no_more() -> None:
    tally = Simulation(setup("least_conn", 2, ONE, cap=1, queue=QueueSetup(2, 60)), 1).run(at_once(5))
    assert (tally.ok, tally.errors) == (4, {"full": 1})


def test_who_waits_too_long_is_told_so() -> None:
    made = setup("least_conn", 1, ONE, cap=1, queue=QueueSetup(9, timeout_s=1.0))
    tally = Simulation(made, 1).run(at_once(4))  # 0.725 s each: the third would begin after 1.4 s
    assert (tally.ok, tally.errors) == (2, {"queue_timeout": 2})


def test_priority_comes_before_order_of_arrival() -> None:
    made = setup("least_conn", 1, ONE, cap=1)
    requests = [*at_once(3, priority=5), Request(0.1, 0, 100, priority=0)]
    Simulation(made, 1).run(requests)
    assert [requests[index].finished for index in (0, 3, 1, 2)] == sorted(r.finished for r in requests)


def test_short_requests_get_a_bounded_head_start() -> None:
    made = setup("least_conn", 1, ONE, cap=1, queue=QueueSetup(99, 1e9, shortest_first=True))
    first, long, short, late = (
        Request(0.0, 0, 2000), Request(0.1, 0, 2000), Request(5.0, 0, 10), Request(14.0, 0, 10),
    )  # fmt: skip
    Simulation(made, 1).run([first, long, short, late])
    assert short.finished < long.finished < late.finished


def test_a_queue_before_the_servers_shares_out_their_free_slots() -> None:
    """With caps at the slots nobody waits at a busy server while another one is idle."""
    made = setup("random_two", 4, ONE, cap=1)
    tally = run(made, Fixed({"output": 100}), 4.5, 4_000)
    assert max(server.max_in_flight for server in _servers(made)) <= 1
    assert (tally.wait.mean() or 0) < (
        run(setup("random_two", 4, ONE), Fixed({"output": 100}), 4.5, 4_000).wait.mean() or 0
    )


def _servers(made: object) -> list:
    simulation = Simulation(made, 1)
    simulation.run(Fixed({"output": 100}).requests(1, 4.5, 500))
    return simulation.servers


def test_backups_serve_only_when_nobody_else_can() -> None:
    made = setup("least_conn", 3)
    servers = (*made.servers[:2], made.servers[2]._replace(backup=True))
    incidents = (
        Incident(20.0, "gpu-0", "drain"),
        Incident(20.0, "gpu-1", "drain"),
        Incident(60.0, "gpu-0", "undrain"),
    )
    simulation = Simulation(made._replace(servers=servers, incidents=incidents), 1)
    requests = list(Fixed({"output": 50}).requests(1, 10.0, 1_000))
    simulation.run(requests)
    assert 0 < simulation.servers[2].requests < 500


def test_a_dead_server_costs_its_requests_and_no_others() -> None:
    made = setup(
        "least_conn", 3, detection=Detection(5.0, 5.0, 0, 0), incidents=(Incident(30.0, "gpu-1", "fail"),)
    )
    simulation = Simulation(made, 1)
    tally = simulation.run(Bimodal({}).requests(1, 15.0, 2_000))
    lost = tally.errors.pop("reset")
    assert 1 <= lost <= 32
    assert tally.errors == {}  # refused connections were tried again elsewhere
    assert tally.ok == 2_000 - lost


def test_without_retries_a_dead_server_refuses_until_it_is_noticed() -> None:
    made = setup(
        "least_conn",
        3,
        retries=0,
        detection=Detection(5.0, 5.0, 0, 0),
        incidents=(Incident(30.0, "gpu-1", "fail"),),
    )
    noticed = Simulation(made, 1).run(Bimodal({}).requests(1, 15.0, 2_000)).errors["connect"]
    never = made._replace(detection=Detection(None, 0, 0, 0))
    unnoticed = Simulation(never, 1).run(Bimodal({}).requests(1, 15.0, 2_000)).errors["connect"]
    ejecting = made._replace(detection=Detection(None, 0, 3, 10.0))
    ejected = Simulation(ejecting, 1).run(Bimodal({}).requests(1, 15.0, 2_000)).errors["connect"]
    assert 10 < noticed < unnoticed
    assert 3 <= ejected < unnoticed / 5


def test_a_drained_server_finishes_what_it_has() -> None:
    made = setup("round_robin", 2, incidents=(Incident(10.0, "gpu-0", "drain"),))
    simulation = Simulation(made, 1)
    tally = simulation.run(Fixed({"output": 500}).requests(1, 5.0, 200))
    assert tally.errors == {}
    assert simulation.servers[0].requests < 40
    assert simulation.servers[1].requests > 150


def test_the_spread_leaves_out_the_first_tenth() -> None:
    """Two servers, one request: a standard deviation of 0.5 while it runs."""
    made = setup("round_robin", 2)
    tally = Simulation(made, 1).run([Request(0.0, 0, 10), Request(10.0, 0, 1000)])
    assert tally.ended_s == pytest.approx(17.25)
    assert tally.load_stdev() == pytest.approx(0.5 * 7.25 / (0.9 * 17.25))


def test_a_conversation_goes_on_after_each_answer() -> None:
    workload = Chat({"turns": 4, "think_s": 5})
    made = setup("least_conn", 2, PROFILES["a100-8b"])
    tally = run(made, workload, 2.0, 400)
    assert tally.arrived == tally.ok == 400
    assert tally.hit_tokens > 0.5 * tally.prompt_tokens


def test_affinity_pays_when_the_prefixes_fit_the_fleet_and_no_single_server() -> None:
    profile = PROFILES["h100-8b"]._replace(kv_tokens=400_000)
    hits = {}
    for name in ("round_robin", "prefix"):
        made = setup(name, 4, profile, parameters={"load_factor": 1.25})
        tally = run(made, Shared({"prefixes": 256, "prefix_tokens": 4096, "skew": 0}), 15.0, 3_000)
        hits[name] = tally.hit_tokens / tally.prompt_tokens
    assert hits["prefix"] > hits["round_robin"] + 0.2
