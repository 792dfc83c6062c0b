"""The plain queue against the engine with one slot."""

from __future__ import annotations

import pytest

from lbgen.simulate.load.workload import Exponential
from lbgen.simulate.runs.clock import Simulation
from lbgen.simulate.servers.step_times.profiles import Profile
from tests.simulate.plain import in_turn, one_queue
from tests.simulate.runs import setup

FIFO = Profile("fifo", "", step=0.001, per_request=0.0, slots=1, prefix_cache=False)


@pytest.mark.parametrize("way", ["in turn", "one queue"])
def test_the_engine_with_one_slot_is_a_plain_queue(way: str) -> None:
    made = (
        setup("round_robin", profile=FIFO) if way == "in turn" else setup("least_conn", profile=FIFO, cap=1)
    )
    requests = list(Exponential({"output": 1000}).requests(1, 3.2, 3_000))
    plain = in_turn if way == "in turn" else one_queue
    ends = list(plain([(r.arrived, r.output_tokens * FIFO.step) for r in requests], 4))
    Simulation(made, 1).run(requests)
    assert [request.finished for request in requests] == pytest.approx(ends, abs=1e-6)
