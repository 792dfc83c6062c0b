"""What the bounds of `prefix` do to agents and tenants, simulated: ``python benchmarks/prefix_bound.py``.

Prints a table in Markdown: hits and the first token's P99 for each `load_factor` and `slack`, medians over
the seeds, below what `least_conn` has. Workloads and servers are those of the bench of peers.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import click

from lbgen.simulate.load.named import workload
from lbgen.simulate.runs.run import Task, sweep
from lbgen.simulate.servers.setup import QueueSetup, ServerSetup, Setup
from lbgen.simulate.servers.step_times.profiles import PROFILES

if TYPE_CHECKING:
    from lbgen.simulate.runs.result import Figures

FACTORS, SLACKS = (1.25, 1.5, 2.0), (2, 4, 8, 16)
PATIENT = QueueSetup(size=10**9, timeout_s=1e12)


class Load(NamedTuple):
    """A workload of the bench of peers."""

    title: str
    name: str
    requests: int
    kv_tokens: int
    rate_per_s: float = 1.0
    servers: int = 4


LOADS = (
    Load("agents", "agents", 768, 384_000),
    Load("4 kinds of agents", "agents:sessions=256,systems=4,turns=6", 1536, 384_000, servers=8),
    Load("tenants", "tenants:skew=1.2", 1600, 10_000, 40.0),
    Load("a hot tenant", "tenants:hot=0.8", 1600, 10_000, 40.0),
)


def tasks(load: Load, seeds: int, strategy: str, **parameters: object) -> list[Task]:
    """Return a run for each seed."""
    profile = PROFILES["plain-prompts"]._replace(kv_tokens=load.kv_tokens, cache_tokens=None)
    servers = tuple(ServerSetup(f"gpu-{number}", profile) for number in range(load.servers))
    made = workload(load.name)
    setup = Setup(servers, strategy, parameters, "haproxy", queue=PATIENT, chunk_tokens=made.chunk_tokens)
    return [Task(setup, made, load.rate_per_s, load.requests, seed) for seed in range(seeds)]


def cells(runs: list[Figures]) -> str:
    """Return the two cells of a workload."""
    hits = median(run.prefix_hit_ratio or 0.0 for run in runs)
    late = median(run.ttft_s.p99 or 0.0 for run in runs)
    return f"{hits:.3f} | {late:.2f} s"


@click.command()
@click.option("--seeds", default=5, show_default=True)
def main(seeds: int) -> None:
    """Print the table."""
    titles = " | ".join(f"{load.title}: hits | first token P99" for load in LOADS)
    click.echo(f"| load_factor | slack | {titles} |")
    click.echo("|---" * (2 + 2 * len(LOADS)) + "|")
    for factor in (None, *FACTORS):
        for slack in SLACKS if factor else (None,):
            bounds = {"key": "auto", "load_factor": factor, "slack": slack} if factor else {}
            strategy = "prefix" if factor else "least_conn"
            asked = [tasks(load, seeds, strategy, **bounds) for load in LOADS]
            runs = list(sweep([task for some in asked for task in some]))
            row = [cells(runs[place * seeds :][:seeds]) for place in range(len(LOADS))]
            click.echo(f"| {factor or 'least_conn'} | {slack or ''} | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
