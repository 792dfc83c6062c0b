"""`kv_cache` beside `least_conn` on unequal and equal pools, simulated: ``python benchmarks/kv_cache.py``.

Prints a table in Markdown of the P99 to the first token and of whole answers, as the change against plain
`least_conn` with the same requests: the mean over the seeds with Student's 95 % interval. *By hand* is
`least_conn` with weights that follow what each server can carry, which somebody would have to measure first.
"""

from __future__ import annotations

import sys
from math import exp, inf
from typing import TYPE_CHECKING, NamedTuple

import click

from lbgen.cli.predict.kv_agent import KvAgent
from lbgen.simulate.load.request import Request
from lbgen.simulate.load.workload import Bimodal, Generated, sizes
from lbgen.simulate.runs.run import Task, sweep
from lbgen.simulate.runs.statistics import interval
from lbgen.simulate.servers.capacity import server_capacity
from lbgen.simulate.servers.setup import QueueSetup, ServerSetup, Setup
from lbgen.simulate.servers.step_times.profiles import PROFILES, Profile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from lbgen.simulate.load.workload import Workload
    from lbgen.simulate.runs.result import Figures

LOADS = (0.7, 0.8, 0.9, 0.95)


class LongPrompts(Generated):
    """Prompts of about 3,000 tokens (lognormal), answers of 400 (exponential): memory is what is short."""

    name = "long prompts"

    def make(self, dice: Random, now: float) -> Request:
        """Return one request."""
        prompt = min(30_000, max(50, int(3_000 * exp(dice.gauss(0, 0.8)))))
        return Request(now, prompt, max(1, int(dice.expovariate(1 / 400))))


class Pool(NamedTuple):
    """What is compared."""

    title: str
    profiles: tuple[Profile, ...]
    workload: Workload


def half_speed(profile: Profile) -> Profile:
    """Return a profile whose steps take twice as long."""
    return profile._replace(step=2 * profile.step, per_request=2 * profile.per_request)


def holding(name: str, tokens: int) -> Profile:
    """Return a profile with a KV cache of so many tokens."""
    return PROFILES[name]._replace(kv_tokens=tokens)


SEED, H100, A100 = PROFILES["seed"], PROFILES["h100-8b"], PROFILES["a100-8b"]
POOLS = (
    Pool("one of four with a quarter of the slots", (SEED,) * 3 + (SEED.with_slots(8),), Bimodal({})),
    Pool("one of four with a third of the slots", (SEED,) * 3 + (SEED.with_slots(11),), Bimodal({})),
    Pool(
        "one of four with a quarter of the KV cache, long prompts",
        (holding("h100-8b", 120_000),) * 3 + (holding("h100-8b", 30_000),),
        LongPrompts({}),
    ),
    Pool(
        "one of four with a third of the KV cache, prompts of 1,000 tokens",
        (holding("a100-8b", 60_000),) * 3 + (holding("a100-8b", 20_000),),
        Bimodal({"prompt": 1_000}),
    ),
    Pool("one of four with half the speed", (SEED,) * 3 + (half_speed(SEED),), Bimodal({})),
    Pool(
        "two H100 and two A100 with as much memory, long prompts", (H100, H100, A100, A100), LongPrompts({})
    ),
    Pool(
        "two H100 and two A100 with less memory, prompts of 1,000 tokens",
        (holding("h100-8b", 100_000),) * 2 + (holding("a100-8b", 40_000),) * 2,
        Bimodal({"prompt": 1_000}),
    ),
    Pool("four equal servers", (SEED,) * 4, Bimodal({})),
    Pool("four equal servers, long prompts", (holding("h100-8b", 120_000),) * 4, LongPrompts({})),
    Pool("four equal servers, long prompts and more memory than they need", (H100,) * 4, LongPrompts({})),
)


def setups(pool: Pool) -> dict[str, Setup]:
    """Return what is compared, the base first. Nothing is refused: a strategy must not win by that."""
    carried = [server_capacity(profile, sizes(pool.workload)) for profile in pool.profiles]
    weights = [max(1, round(256 * one / max(carried))) for one in carried]

    def setup(name: str, weights: Sequence[int]) -> Setup:
        servers = tuple(
            ServerSetup(f"gpu-{number}", profile, weight)
            for number, (profile, weight) in enumerate(zip(pool.profiles, weights, strict=True))
        )
        queue = QueueSetup(sys.maxsize, inf)
        parameters = {"drain_above": 0.95}
        return Setup(servers, name, parameters, "haproxy", queue=queue, agent=KvAgent)

    return {
        "least_conn": setup("least_conn", [1] * len(weights)),
        "by hand": setup("least_conn", weights),
        "kv_cache": setup("kv_cache", [1] * len(weights)),
    }


def change(base: Sequence[float], other: Sequence[float]) -> str:
    """Return the change in percent."""
    found = interval([100 * (b / a - 1) for a, b in zip(base, other, strict=True)])
    return f"{found.mean:+.0f} ± {found.half_width or 0:.0f} %"


def row(pool: Pool, load: float, seeds: range, requests: int) -> str:
    """Return one row of the table."""
    asked = setups(pool)
    rate = load * sum(server_capacity(profile, sizes(pool.workload)) for profile in pool.profiles)
    tasks = [Task(setup, pool.workload, rate, requests, seed) for setup in asked.values() for seed in seeds]
    runs = list(sweep(tasks))
    found = {name: runs[place * len(seeds) :][: len(seeds)] for place, name in enumerate(asked)}
    firsts = {name: [_known(run.ttft_s.p99) for run in row] for name, row in found.items()}
    wholes = {name: [_known(run.e2e_s.p99) for run in row] for name, row in found.items()}
    cells = [f"{sum(firsts['least_conn']) / len(seeds):.2f} s"]
    cells += [change(firsts["least_conn"], firsts[name]) for name in ("by hand", "kv_cache")]
    cells += [f"{sum(wholes['least_conn']) / len(seeds):.1f} s"]
    cells += [change(wholes["least_conn"], wholes[name]) for name in ("by hand", "kv_cache")]
    return f"| {pool.title} | {load:g} | {' | '.join(cells)} |{_lost(found['kv_cache'])}"


def _known(value: float | None) -> float:
    return value if value is not None else inf


def _lost(runs: Sequence[Figures]) -> str:
    lost = sum(run.requests - run.ok for run in runs)
    return f" {lost} requests were lost" if lost else ""


@click.command()
@click.option("--seeds", default=10, show_default=True)
@click.option("--requests", default=8_000, show_default=True, help="Of each run.")
@click.option("--pool", "names", multiple=True, help="A part of a pool's title; default: all of them.")
@click.option("--load", "loads", multiple=True, type=float, default=LOADS, show_default=True)
def main(seeds: int, requests: int, names: tuple[str, ...], loads: tuple[float, ...]) -> None:
    """Print the table."""
    click.echo(
        "| pool | load | first token P99 | by hand | kv_cache | whole answer P99 | by hand | kv_cache |"
    )
    click.echo("|---" * 8 + "|")
    for pool in POOLS:
        if not names or any(name in pool.title for name in names):
            for load in loads:
                click.echo(row(pool, load, range(1, seeds + 1), requests))


if __name__ == "__main__":
    main()
