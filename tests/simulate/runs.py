"""Runs for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.simulate.runs.clock import Simulation
from lbgen.simulate.servers.setup import QueueSetup, ServerSetup, Setup
from lbgen.simulate.servers.step_times.profiles import PROFILES, Profile

if TYPE_CHECKING:
    from lbgen.simulate.load.workload import Workload
    from lbgen.simulate.runs.tally import Tally

SEED = PROFILES["seed"]
PATIENT = QueueSetup(size=10**9, timeout_s=1e12)


def setup(strategy: str, servers: int = 4, profile: Profile = SEED, **values: Any) -> Setup:
    """Equal servers under a strategy; `cap` is of each server."""
    cap = values.pop("cap", None)
    made = tuple(ServerSetup(f"gpu-{index}", profile, cap=cap) for index in range(servers))
    return Setup(made, strategy, **{"queue": PATIENT, **values})


def run(made: Setup, workload: Workload, rate: float, count: int, seed: int = 1) -> Tally:
    """One run."""
    return Simulation(made, seed, workload.follow).run(workload.requests(seed, rate, count))
