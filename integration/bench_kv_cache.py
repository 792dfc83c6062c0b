"""`kv_cache` with its agent beside `least_conn`: ``python -m integration.bench_kv_cache [POOL...]``.

Needs Docker and the images of `integration.images`. Four mock GPU servers, the agent as its own process on
this machine, HAProxy in between. Prints a table in Markdown: each figure is the median of the runs with the
least and the most, in model seconds; the change is the mean of run against run with the same requests, with
Student's 95 % interval. The first fifth of each run is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from integration.conftest import renewed
from integration.fleets import SERVERS, Proxy, files
from integration.images import resolve
from integration.waiting import eventually
from lbgen.lab import load
from lbgen.lab.boxes import fetch
from lbgen.lab.rig import Rig
from lbgen.simulate.load.workload import Sizes
from lbgen.simulate.runs.statistics import interval
from lbgen.simulate.servers.capacity import server_capacity
from lbgen.simulate.servers.step_times.profiles import PROFILES, Profile
from tests.arrivals import bimodal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.lab.boxes import Balancer, MockBox

SPEED = 4.0
"""Model seconds in a second. HAProxy asks the agent once a second: every four model seconds."""
LOAD = 0.9
LATE_S = 0.5
PORT, STATUS = 18_426, 18_427
LEARN_S = 45.0
"""Of load before the first run that counts: the agent's weights rest on 30 s."""


class Server(NamedTuple):
    """What one mock is."""

    slots: int = 32
    kv_tokens: int | None = None
    pace: float = 1.0
    """Its speed, against the others'."""


class Bench(NamedTuple):
    """A pool and its load."""

    title: str
    servers: tuple[Server, ...]
    profile: str = "seed"
    long_prompts: bool = False
    """Prompts of about 3,000 tokens, lognormal; else 70 % short and 30 % long answers."""

    @property
    def sizes(self) -> Sizes:
        """Return the averages of the requests."""
        if self.long_prompts:
            dice = random.Random(1)
            sample = [size(dice) for _ in range(4_000)]
            prompt, output = (statistics.mean(values) for values in zip(*sample, strict=True))
            return Sizes(prompt, output, prompt + output)
        return Sizes(128, 0.7 * 60 + 0.3 * 1250, 900)

    @property
    def rate_per_s(self) -> float:
        """Return the requests a model second that make the load."""
        return LOAD * sum(server_capacity(self._profile(server), self.sizes) for server in self.servers)

    def _profile(self, server: Server) -> Profile:
        base = PROFILES[self.profile]._replace(slots=server.slots, kv_tokens=server.kv_tokens)
        return base._replace(
            step=base.step / server.pace,
            per_request=base.per_request / server.pace,
            per_kv_token=base.per_kv_token / server.pace,
            per_prefill_token=base.per_prefill_token / server.pace,
        )

    def plan(self, seed: int, seconds: float) -> list[load.Planned]:
        """Return the requests of one run of so many seconds of the wall clock."""
        rate = self.rate_per_s
        count = int(rate * SPEED * seconds)
        if not self.long_prompts:
            return bimodal(seed, rate, count, SPEED)
        dice, now, planned = random.Random(seed), 0.0, []
        for number in range(count):
            now += dice.expovariate(rate) / SPEED
            prompt, output = size(dice)
            # What is different from the beginning shares nothing in a prefix cache.
            planned.append(load.Planned(now, output, f"{seed} {number} ".ljust(prompt * 4, "x")))
        return planned


def size(dice: random.Random) -> tuple[int, int]:
    """Return the tokens of a long prompt and of its answer."""
    prompt = min(30_000, max(50, int(3_000 * math.exp(dice.gauss(0, 0.8)))))
    return prompt, max(1, int(dice.expovariate(1 / 400)))


BENCHES = {
    "slots": Bench("one of four with a quarter of the slots", (Server(),) * 3 + (Server(slots=8),)),
    "memory": Bench(
        "one of four with a quarter of the KV cache, long prompts",
        (Server(256, 120_000),) * 3 + (Server(256, 30_000),),
        "h100-8b",
        long_prompts=True,
    ),
    "speed": Bench("one of four with half the speed", (Server(),) * 3 + (Server(pace=0.5),)),
    "equal": Bench("four equal servers", (Server(),) * 4),
    "equal-memory": Bench(
        "four equal servers, long prompts", (Server(256, 120_000),) * 4, "h100-8b", long_prompts=True
    ),
}


class Figures(NamedTuple):
    """One run; model seconds."""

    first_p50: float
    first_p99: float
    whole_p50: float
    whole_p99: float
    failed: float


TITLES = ("first token P50", "first token P99", "whole answer P50", "whole answer P99", "failed of 1,000")


def fleet(mocks: list[MockBox], strategy: str, gateway: str) -> dict[str, Any]:
    """Return the fleet of one row."""
    wanted: dict[str, Any] = {"name": strategy}
    if strategy == "kv_cache":
        wanted |= {"agent_host": gateway, "agent_port": PORT}
    servers = [
        {"name": name, "address": f"{mock.address}:8000"} for name, mock in zip(SERVERS, mocks, strict=True)
    ]
    queue = {"size": 100_000, "timeout": "10m"}
    return {"pools": {"chat": {"engine": "vllm", "strategy": wanted, "servers": servers, "queue": queue}}}


@contextmanager
def agent(plan: dict[str, Any], gateway: str) -> Iterator[None]:
    """Run the agent, which looks once a model second."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.yaml"
        path.write_text(json.dumps(plan))
        words = [
            f"--listen={gateway}:{PORT}",
            f"--status=127.0.0.1:{STATUS}",
            f"--interval={1000 / SPEED:.0f}ms",
        ]
        process = subprocess.Popen([sys.executable, "-m", "lbgen", "agent", str(path), *words])
        try:
            eventually(is_healthy, 20, "the agent answers on /health")
            yield
        finally:
            process.terminate()
            process.wait()


def is_healthy() -> bool:
    """Tell whether an agent answers."""
    try:
        return fetch(f"http://127.0.0.1:{STATUS}/health", timeout_s=2).status == 200
    except OSError:
        return False


def figures(results: Sequence[load.Result]) -> Figures:
    """Return the figures of one run."""
    counted = results[len(results) // 5 :]
    good = [result for result in counted if result.ok]
    first = [((result.first_s or 0) - result.planned.at_s) * SPEED for result in good]
    whole = [result.latency_s * SPEED for result in good]
    return Figures(
        load.percentile(first, 0.5), load.percentile(first, 0.99),
        load.percentile(whole, 0.5), load.percentile(whole, 0.99),
        1000 * (len(counted) - len(good)) / len(counted),
    )  # fmt: skip


def measured(balancer: Balancer, bench: Bench, seeds: Sequence[int], seconds: float) -> list[Figures]:
    """Send the load of each seed through one balancer; raises `CouldNotKeepUpError`."""
    runs = []
    for seed in seeds:
        results = asyncio.run(load.run(balancer.url, bench.plan(seed, seconds), most_late_s=LATE_S))
        runs.append(figures(results))
        print(f"{bench.title}, seed {seed}: {runs[-1]}", file=sys.stderr, flush=True)
    return runs


class Lab(NamedTuple):
    """What all pools share."""

    rig: Rig
    mocks: list[MockBox]
    proxy: Proxy
    seeds: Sequence[int]
    seconds: float

    def rows(self, bench: Bench) -> dict[str, list[Figures]]:
        """Measure a pool under both strategies."""
        return {strategy: self._row(bench, strategy) for strategy in ("least_conn", "kv_cache")}

    def _row(self, bench: Bench, strategy: str) -> list[Figures]:
        renewed(self.mocks, profile=bench.profile, chunk_s=0.1)
        for mock, server in zip(self.mocks, bench.servers, strict=True):
            mock.configure(slots=server.slots, kv_tokens=server.kv_tokens, speed=SPEED * server.pace)
        plan = fleet(self.mocks, strategy, self.rig.gateway)
        balancer = self.rig.balancer("haproxy", self.proxy.image, files(plan, self.proxy))
        try:
            if strategy == "least_conn":
                return measured(balancer, bench, self.seeds, self.seconds)
            with agent(plan, self.rig.gateway):
                asyncio.run(load.run(balancer.url, bench.plan(0, LEARN_S), most_late_s=LATE_S))
                return measured(balancer, bench, self.seeds, self.seconds)
        finally:
            balancer.remove()


def table(bench: Bench, found: dict[str, list[Figures]]) -> str:
    """Return a table in Markdown."""
    lines = [
        f"### {bench.title}, {bench.rate_per_s:.1f} requests/s",
        "",
        f"| | {' | '.join(TITLES)} |",
        "|---" * 6 + "|",
    ]
    for strategy, runs in found.items():
        cells = [
            f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"
            for values in zip(*runs, strict=True)
        ]
        lines.append(f"| {strategy} | {' | '.join(cells)} |")
    lines.append(f"| change | {' | '.join(changes(*found.values()))} | |")
    return "\n".join(lines) + "\n"


def changes(base: list[Figures], other: list[Figures]) -> Iterator[str]:
    """Yield the change of each time in percent."""
    times = len(TITLES) - 1
    for index in range(times):
        found = interval(
            [100 * (after[index] / before[index] - 1) for before, after in zip(base, other, strict=True)]
        )
        yield f"{found.mean:+.0f} % ± {found.half_width or 0:.0f}"


def main() -> None:
    """Run the command line."""
    line = argparse.ArgumentParser(prog="integration.bench_kv_cache", description=__doc__)
    line.add_argument("pools", nargs="*", metavar="POOL", help=f"of {', '.join(BENCHES)}; default: all")
    line.add_argument("--generation", default="trixie", help="bookworm, trixie or sid")
    line.add_argument("--runs", type=int, default=5, help="runs of each row")
    line.add_argument("--seconds", type=float, default=30.0, help="of each run")
    options = line.parse_args()
    with Rig() as rig:
        mocks = rig.mocks(SERVERS, resolve("bookworm", "python"))
        proxy = Proxy(options.generation, "haproxy")
        lab = Lab(rig, mocks, proxy, range(1, options.runs + 1), options.seconds)
        for name in options.pools or BENCHES:
            begun = time.monotonic()
            print(table(BENCHES[name], lab.rows(BENCHES[name])), flush=True)
            print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
