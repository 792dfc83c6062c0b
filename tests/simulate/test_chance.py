"""What chance does to a run."""

from __future__ import annotations

from lbgen.simulate.load.workload import Bimodal
from lbgen.simulate.runs.chance import Shifted, replicas
from lbgen.simulate.runs.run import Task, run
from lbgen.simulate.servers.setup import ServerSetup, Setup
from lbgen.simulate.servers.step_times.profiles import PROFILES

SETUP = Setup(
    servers=tuple(ServerSetup(f"gpu-{n}", PROFILES["seed"]) for n in range(4)), strategy="random_two"
)
TASK = Task(SETUP, Bimodal({}), 28.0, 400, 1)


def test_requests_are_the_same_ones_a_little_later() -> None:
    plain = list(TASK.workload.requests(1, 28.0, 400))
    shifted = list(Shifted(TASK.workload, 0.02, 3).requests(1, 28.0, 400))
    assert sorted(one.output_tokens for one in plain) == sorted(one.output_tokens for one in shifted)
    assert [one.output_tokens for one in plain] != [one.output_tokens for one in shifted]
    assert [one.arrived for one in shifted] == sorted(one.arrived for one in shifted)
    later = [b.arrived - a.arrived for a, b in zip(plain, shifted, strict=True)]
    assert all(0 <= one <= 0.02 for one in later)  # order statistics keep the bound


def test_replicas_differ_and_are_the_same_again() -> None:
    once = [run(task).servers for task in replicas(TASK, 5, 0.01)]
    again = [run(task).servers for task in replicas(TASK, 5, 0.01)]
    assert once == again
    assert len(set(once)) == 5


def test_luck_alone_changes_what_balancers_draw() -> None:
    assert run(TASK).servers != run(TASK._replace(luck=1)).servers


def test_another_moment_is_still_the_same_workload() -> None:
    shifted = Shifted(TASK.workload, 0.02, 3)
    assert shifted.chunk_tokens == TASK.workload.chunk_tokens
    assert shifted.own_rate == TASK.workload.own_rate
    assert shifted.name == TASK.workload.name
