"""How fast the simulator is, against SimPy in the same run.

``pip install simpy; python -m benchmarks.simulate``. SimPy's program is the textbook's: 4 servers that do one
thing at a time, requests in turn. Ours are the same queue, and the whole engine with the seed workload on one
core. Turns alternate and the best of each counts, since other work on the machine only ever slows. Exits 1
below a limit.
"""

from __future__ import annotations

import resource
import sys
import time
from random import Random
from typing import TYPE_CHECKING

import simpy

from lbgen.simulate.load.workload import Bimodal
from lbgen.simulate.runs.clock import Simulation
from lbgen.simulate.servers.setup import ServerSetup, Setup
from lbgen.simulate.servers.step_times.profiles import PROFILES
from tests.simulate.plain import in_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

REQUESTS = 100_000
SERVERS = 4
ROUNDS = 5
PLAIN_LIMIT, ENGINE_LIMIT = 5.0, 0.3
RATE = 20.0
SERVICE = 0.16


def with_simpy() -> None:
    """Do the textbook's program."""
    environment = simpy.Environment()
    servers = [simpy.Resource(environment, 1) for _ in range(SERVERS)]
    dice = Random(1)
    ends = []

    def serve(server: simpy.Resource, service: float) -> Generator[simpy.Event]:
        with server.request() as turn:
            yield turn
            yield environment.timeout(service)
        ends.append(environment.now)

    def arrive() -> Generator[simpy.Event]:
        for number in range(REQUESTS):
            yield environment.timeout(dice.expovariate(RATE))
            environment.process(serve(servers[number % SERVERS], dice.expovariate(1 / SERVICE)))

    environment.process(arrive())
    environment.run()


def plain() -> None:
    """Do the same with ours."""
    dice = Random(1)

    def requests() -> Generator[tuple[float, float]]:
        now = 0.0
        for _ in range(REQUESTS):
            now += dice.expovariate(RATE)
            yield now, dice.expovariate(1 / SERVICE)

    ends = list(in_turn(requests(), SERVERS))
    del ends


def engine(strategy: str, requests: int = REQUESTS) -> None:
    """Run the whole model: batches, balancer, figures."""
    servers = tuple(ServerSetup(f"gpu-{number}", PROFILES["seed"]) for number in range(SERVERS))
    simulation = Simulation(Setup(servers, strategy), 1)
    simulation.run(Bimodal({}).requests(1, RATE, requests))


def seconds(work: Callable[[], None]) -> float:
    """Return the processor time that something takes."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> int:
    """Print the rates; return 1 when one is below its limit."""
    works: dict[str, Callable[[], None]] = {
        "SimPy, 4 FIFO servers": with_simpy,
        "plain queue": plain,
        "engine, round_robin": lambda: engine("round_robin"),
        "engine, least_conn": lambda: engine("least_conn"),
        "engine, random_two": lambda: engine("random_two"),
    }
    best = dict.fromkeys(works, float("inf"))
    for _ in range(ROUNDS):
        for name, work in works.items():
            best[name] = min(best[name], seconds(work))
    base = best["SimPy, 4 FIFO servers"]
    for name, spent in best.items():
        print(f"{name:24} {REQUESTS / spent:12,.0f} requests/s  {base / spent:6.2f} x SimPy")
    spent = seconds(lambda: engine("least_conn", 1_000_000))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"a million requests took {spent:.1f} s, the most memory of all was {memory:.0f} MiB")
    slow = base / best["plain queue"] < PLAIN_LIMIT or base / best["engine, least_conn"] < ENGINE_LIMIT
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
