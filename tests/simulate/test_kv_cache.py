"""What the agent's weights and caps do to a pool, through the code that `lbgen agent` runs."""

from __future__ import annotations

import pytest

from lbgen.cli.predict.kv_agent import KvAgent
from lbgen.simulate.load.request import Request
from lbgen.simulate.load.workload import Bimodal
from lbgen.simulate.runs.clock import Simulation
from lbgen.simulate.servers.engine import Engine
from lbgen.simulate.servers.memory import MemoryEngine
from lbgen.simulate.servers.setup import EngineFigures, ServerSetup, Setup
from lbgen.simulate.servers.step_times.profiles import PROFILES, Profile
from tests.simulate.runs import PATIENT, SEED

SMALL = SEED.with_slots(8)
SLOW = SEED._replace(step=2 * SEED.step, per_request=2 * SEED.per_request)
TIGHT = PROFILES["h100-8b"]._replace(kv_tokens=60_000)


def p99s(strategy: str, profiles: tuple[Profile, ...], rate: float, **values: object) -> tuple[float, float]:
    """Return the P99 of the first token and of whole answers; nobody is refused."""
    servers = tuple(ServerSetup(f"gpu-{number}", profile) for number, profile in enumerate(profiles))
    setup = Setup(servers, strategy, {"drain_above": 0.95}, "haproxy", queue=PATIENT, agent=KvAgent, **values)  # type: ignore[arg-type]
    workload = Bimodal({"prompt": 1_000})
    tally = Simulation(setup, 1).run(workload.requests(1, rate, 6_000))
    assert tally.ok == 6_000
    (first,), (whole,) = tally.ttft.at(0.99), tally.e2e.at(0.99)
    assert first is not None
    assert whole is not None
    return first, whole


@pytest.mark.parametrize(
    ("small", "rate"), [(SMALL, 25.0), (SEED.with_slots(11), 26.0)], ids=["a quarter", "a third"]
)
def test_a_server_with_fewer_slots(small: Profile, rate: float) -> None:
    profiles = (SEED, SEED, SEED, small)
    assert p99s("kv_cache", profiles, rate)[0] < 0.5 * p99s("least_conn", profiles, rate)[0]


def test_a_server_with_less_memory() -> None:
    profiles = (TIGHT, TIGHT, TIGHT, TIGHT._replace(kv_tokens=15_000))
    assert p99s("kv_cache", profiles, 14.0)[0] < 0.5 * p99s("least_conn", profiles, 14.0)[0]


def test_a_slower_server() -> None:
    """Whole answers: what decides is which server computes them."""
    profiles = (SEED, SEED, SEED, SLOW)
    assert p99s("kv_cache", profiles, 22.0)[1] < 0.8 * p99s("least_conn", profiles, 22.0)[1]


def test_equal_servers_lose_nothing() -> None:
    profiles = (SEED,) * 4
    first, whole = p99s("kv_cache", profiles, 31.5)
    plain_first, plain_whole = p99s("least_conn", profiles, 31.5)
    assert first < 1.1 * plain_first
    assert whole < 1.02 * plain_whole


def test_old_numbers_make_no_herd() -> None:
    """Readings five seconds old, as when the engines are slow to answer."""
    profiles = (SEED, SEED, SEED, SMALL)
    assert p99s("kv_cache", profiles, 25.0, agent_s=5.0)[0] < 0.5 * p99s("least_conn", profiles, 25.0)[0]


def test_two_balancers_share_the_caps() -> None:
    profiles = (SEED, SEED, SEED, SMALL)
    several = p99s("kv_cache", profiles, 25.0, balancers=2)[0]
    assert several < 0.5 * p99s("least_conn", profiles, 25.0, balancers=2)[0]


class _Capping:
    """An agent that allows three requests a server."""

    def __init__(self, servers: tuple[str, ...], drain_above: float, balancers: int) -> None:
        del servers, drain_above, balancers

    def observe(self, server: str, figures: EngineFigures, now: float) -> None:
        pass

    def verdict(self, server: str, now: float) -> tuple[int, int | None]:
        del server, now
        return 100, 3


@pytest.mark.parametrize(("cap", "most"), [(None, 3), (2, 2), (9, 3)])
def test_caps_hold_and_what_does_not_fit_waits(cap: int | None, most: int) -> None:
    servers = tuple(ServerSetup(f"gpu-{number}", SEED, cap=cap) for number in range(2))
    simulation = Simulation(Setup(servers, "kv_cache", queue=PATIENT, agent=_Capping), 1)
    tally = simulation.run(Request(1 + 0.001 * number, 0, 100) for number in range(20))
    assert tally.ok == 20
    assert {server.max_in_flight for server in simulation.servers} == {most}


def test_without_a_queue_no_cap_refuses_anybody() -> None:
    servers = tuple(ServerSetup(f"gpu-{number}", SEED) for number in range(2))
    simulation = Simulation(Setup(servers, "kv_cache", queue=None, agent=_Capping), 1)
    assert simulation.run(Request(1 + 0.001 * number, 0, 100) for number in range(20)).ok == 20


@pytest.mark.parametrize("kind", [Engine, MemoryEngine])
def test_generated_tokens_count_up_to_the_whole_answers(kind: type[Engine]) -> None:
    engine = kind(PROFILES["h100-8b"] if kind is MemoryEngine else SEED)
    for number in range(3):
        engine.submit(Request(0.0, 500, 100 + 100 * number), 0.0)
    done, counts = 0, []
    for tick in range(1, 400):
        now = tick / 100
        done += sum(request.output_tokens for request in engine.advance(now))
        counts.append(done + engine.generated(now))
    assert counts == sorted(counts)
    assert 0 < counts[50] < 600
    assert counts[-1] == 600
