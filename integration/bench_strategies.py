"""Every strategy on the two workloads that tell them apart: ``python -m integration.bench_strategies``.

Needs Docker and the images of `integration.images`. Prints two tables in Markdown; times are model seconds,
and each figure is the median over the seeds with the least and the most.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from integration.conftest import renewed
from integration.fleets import SERVERS, Proxy, chat, files
from integration.images import resolve
from lbgen.lab import load
from lbgen.lab.rig import Rig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lbgen.lab.boxes import MockBox

LATE_S = 0.5
SHORT_TOKENS = 100


class Case(NamedTuple):
    """A row of a table: a pool on a target."""

    title: str
    target: str
    pool: dict[str, Any]


class Workload(NamedTuple):
    """What is sent to which servers."""

    title: str
    speed: float
    mock: dict[str, object]
    plan: Callable[[int, int, float], list[load.Planned]]
    cases: tuple[Case, ...]


def unequal_answers(seed: int, count: int, speed: float) -> list[load.Planned]:
    """Return 70 % short and 30 % long answers at 95 % of what four servers of 32 slots can do."""
    return load.bimodal(seed, 33.0, count, speed)


TENANTS = 24
SYSTEM_BYTES = 18_000
"""4,500 tokens."""


def tenants(seed: int, count: int, speed: float) -> list[load.Planned]:
    """Return questions under 24 system prompts, the most common 24 times as often as the rarest; 40/s."""
    dice = random.Random(seed)
    prompts = [f"Tenant {number} of {seed}. " * (SYSTEM_BYTES // 18) for number in range(TENANTS)]
    shares = [1 / (rank + 1) for rank in range(TENANTS)]
    now, planned = 0.0, []
    for number in range(count):
        now += dice.expovariate(40.0)
        tenant = dice.choices(range(TENANTS), shares)[0]
        tokens = dice.randint(20, 100) if dice.random() < 0.7 else dice.randint(100, 400)
        prompt = prompts[tenant][:SYSTEM_BYTES] + f" Question {number}. " * 20
        planned.append(
            load.Planned(now / speed, tokens, prompt, headers={"X-Session-Id": f"tenant-{tenant}"})
        )
    return planned


BOTH = ("nginx", "haproxy")


def _everywhere(*names: str) -> tuple[Case, ...]:
    return tuple(Case(name, target, {"strategy": name}) for name in names for target in BOTH)


SHORTEST = {"max_in_flight": 32, "queue": {"order": "shortest_first"}}
ANSWERS = Workload(
    "Short and long answers, four servers of 32 slots at 95 % load", 8.0, {"slots": 32, "profile": "seed"},
    unequal_answers,
    (
        *_everywhere("round_robin", "random_two", "least_conn"),
        Case("least_conn, max_in_flight 32", "haproxy", {"max_in_flight": 32}),
        Case("the same, shortest_first", "haproxy", SHORTEST),
        Case("pack, max_in_flight 32", "haproxy", {"strategy": "pack", "max_in_flight": 32}),
    ),
)  # fmt: skip
PREFIXES = Workload(
    "24 tenants with system prompts of 4,500 tokens, of which a server's cache holds a third", 5.0,
    {"slots": 64, "profile": "h100-8b", "kv_tokens": 48_000}, tenants,
    (
        *_everywhere("round_robin", "least_conn"),
        Case("session by tenant", "nginx", {"strategy": "session"}),
        Case("session by tenant", "haproxy", {"strategy": "session"}),
        Case("prefix", "nginx", {"strategy": "prefix"}),
        Case("prefix, max_in_flight 24", "nginx", {"strategy": "prefix", "max_in_flight": 24}),
        Case("prefix, load_factor 1.25", "haproxy", {"strategy": "prefix"}),
        Case("prefix, load_factor 2", "haproxy", {"strategy": {"name": "prefix", "load_factor": 2}}),
        Case("prefix, max_in_flight 24 (learned)", "haproxy", {"strategy": "prefix", "max_in_flight": 24}),
    ),
)  # fmt: skip


class Figures(NamedTuple):
    """One run; times in model seconds."""

    short_p99: float
    first_p50: float
    first_p99: float
    hits: float
    failed: float


TITLES = ("P99 of short answers", "first token P50", "first token P99", "prefix hits", "failed of 1,000")


class Bench(NamedTuple):
    """What all runs share."""

    rig: Rig
    mocks: list[MockBox]
    generation: str
    requests: int

    def measure(self, case: Case, work: Workload, seed: int) -> Figures | None:
        """Run one workload through one balancer that knows nothing yet; None: the driver was too slow."""
        renewed(self.mocks, **({"kv_tokens": None, "chunk_s": 0.5} | work.mock | {"speed": work.speed}))
        proxy = Proxy(self.generation, case.target)
        pool = {"strategy": "least_conn"} | case.pool
        balancer = self.rig.balancer(case.target, proxy.image, files(chat(**pool), proxy))
        try:
            planned = work.plan(seed, self.requests, work.speed)
            results = asyncio.run(load.run(balancer.url, planned, most_late_s=LATE_S))
        except load.CouldNotKeepUpError as error:
            print(f"{case.title} on {case.target}, seed {seed}: left out, {error}", file=sys.stderr)
            return None
        finally:
            balancer.remove()
        hits = statistics.mean(mock.state()["hit_ratio"] for mock in self.mocks)
        return figures(results[self.requests // 4 :], work.speed, hits)


def figures(results: Sequence[load.Result], speed: float, hits: float) -> Figures:
    """Return the figures of the requests after the first quarter, in which caches fill."""
    good = [result for result in results if result.ok]
    short = [result.latency_s for result in good if result.planned.output_tokens <= SHORT_TOKENS]
    first = [(result.first_s or 0) - result.planned.at_s for result in good]
    failed = 1000 * (len(results) - len(good)) / len(results)
    return Figures(
        load.percentile(short, 0.99) * speed,
        load.percentile(first, 0.5) * speed,
        load.percentile(first, 0.99) * speed,
        hits,
        failed,
    )


def cell(values: Sequence[float]) -> str:
    """Return the median, and the least and the most of several seeds."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def table(work: Workload, rows: Sequence[tuple[Case, list[Figures]]]) -> str:
    """Return a Markdown table."""
    lines = [f"## {work.title}", "", f"| strategy | on | {' | '.join(TITLES)} |", "|---" * 7 + "|"]
    for case, runs in rows:
        lines.append(f"| {case.title} | {case.target} | {' | '.join(map(cell, zip(*runs, strict=True)))} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the command line."""
    line = argparse.ArgumentParser(prog="integration.bench_strategies", description=__doc__)
    line.add_argument("--generation", default="trixie", help="bookworm, trixie or sid")
    line.add_argument("--seeds", type=int, default=5, help="runs of each row")
    line.add_argument("--requests", type=int, default=4000, help="in each run")
    line.add_argument("--only", choices=("answers", "prefixes"), help="one of the two workloads")
    options = line.parse_args()
    chosen = {"answers": ANSWERS, "prefixes": PREFIXES}
    works = [chosen[options.only]] if options.only else list(chosen.values())
    with Rig() as rig:
        mocks = rig.mocks(SERVERS, resolve("bookworm", "python"))
        bench = Bench(rig, mocks, options.generation, options.requests)
        for work in works:
            print(table(work, list(rows(bench, work, options.seeds))), flush=True)


def rows(bench: Bench, work: Workload, seeds: int) -> Iterator[tuple[Case, list[Figures]]]:
    """Yield each case with its runs, and say how far things are."""
    for case in work.cases:
        runs = [run for seed in range(seeds) if (run := bench.measure(case, work, seed))]
        print(f"{case.title} on {case.target}: {len(runs)} runs", file=sys.stderr, flush=True)
        if runs:
            yield case, runs


if __name__ == "__main__":
    main()
