"""Whether `lbgen simulate` predicts what the real programs do: ``python -m integration.bench_agreement``.

Each strategy at each load on each target, over several seeds, with the same requests in both. A figure is the
average over the seeds of each run's figure, as `simulate` tells it. Beside each prediction stands what chance
makes of it: between which values lie 98 % of its replicas, in which requests that arrive almost together swap
places and the balancers draw otherwise. Prints a table in Markdown.

With ``--keep FILE`` finished runs are kept, and an interrupted bench goes on there; ``--table`` only prints.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from integration.agreement_runs import QUEUE, STRATEGIES, Case, Kept, Run
from integration.fleets import TARGETS, THREE, Proxy, chat
from integration.images import GENERATIONS, resolve, versions
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.lab.trial.asked.planning import plan
from lbgen.lab.trial.asked.speed import FASTEST
from lbgen.lab.trial.conduct import conduct
from lbgen.lab.trial.results import agreement
from lbgen.lab.trial.stage.containers import Containers
from lbgen.lab.trial.stage.processes import Processes
from lbgen.simulate.answers.study import Plan, Question
from lbgen.simulate.load.named import workload
from lbgen.simulate.runs.chance import replicas
from lbgen.simulate.runs.result import combined
from lbgen.simulate.runs.run import Task, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.lab.trial.results.agreement import Gap
    from lbgen.simulate.runs.result import Figures

LOADS = (0.5, 0.8, 0.9)
LUCK = 100
"""Replicas of each prediction."""
TAIL = 0.01
"""The share of the replicas that lies beyond each end of the band."""


def question(case: Case, seed: int, requests: int) -> Question:
    """Return what is asked for one seed."""
    queue = case.strategy == QUEUE
    text = chat("least_conn" if queue else case.strategy, **({"max_in_flight": case.slots} if queue else {}))
    text["listeners"] = {"default": {"bind": "127.0.0.1:8080"}}
    fleet = load([Source("fleet.yaml", yaml.safe_dump(text))], environ={}, targets=(case.target,)).fleet
    assert fleet is not None
    pool = fleet.pools[0]
    return Question(
        fleet, pool, (pool.strategy.name,), (case.target,), workload("bimodal"), requests, (seed,),
        load=case.load, slots=case.slots, alone=True,
    )  # fmt: skip


@contextmanager
def runtime(generation: str | None) -> Iterator[Containers | Processes]:
    """Give containers with the images of a generation; None: programs of this machine."""
    if generation is None:
        with Processes() as here:
            yield here
        return
    images = {target: Proxy(generation, target).image for target in THREE}
    with Containers({**images, "mock": resolve("bookworm", "python")}) as containers:
        yield containers


def measure(case: Case, seed: int, requests: int, generation: str | None) -> Run:
    """Predict and measure one case with one seed."""
    return with_luck(*measured(case, seed, requests, generation))


def measured(
    case: Case, seed: int, requests: int, generation: str | None, fastest: float = FASTEST
) -> tuple[Run, Task]:
    """Return a run without its replicas, and what these are made of."""
    made = plan(question(case, seed, requests), _say, fastest=fastest)
    with runtime(generation) as there:
        (row,) = conduct(made, there, _say)
    planned = Plan.of(made.predictions[0].question)
    task = Task(planned.setups[0], made.question.workload, planned.rate_per_s, requests, seed)
    profile = task.setup.servers[0].profile
    slack_s = agreement.slack_s(profile.step + profile.per_request * profile.slots, row.speed)
    late = row.late.driver.p99_s, row.late.mocks_p99_s
    assert row.predicted is not None  # it is of a strategy
    return Run(row.predicted.runs[0], row.measured.runs[0], (), *late, row.speed, slack_s), task


def with_luck(run: Run, task: Task) -> Run:
    """Return a run with replicas of its prediction."""
    return run._replace(lucky=tuple(sweep(replicas(task, LUCK, agreement.WALL_S * run.speed))))


def gaps(runs: Sequence[Run], *, tail: float = TAIL) -> list[Gap]:
    """Return how far prediction and measurement are apart, over all seeds."""
    late_s = max(2 * max(run.driver_late_s, run.mocks_late_s) * run.speed for run in runs)
    found = agreement.gaps(
        combined([run.predicted for run in runs]),
        combined([run.measured for run in runs]),
        max(run.slack_s for run in runs),
        by_luck(runs),
        tail=tail,
    )
    gaps = [gap._replace(late_s=late_s) for gap in found]
    return [gap for gap in gaps if gap.what != "refused" or gap.predicted or gap.measured]


def by_luck(runs: Sequence[Run]) -> list[Figures]:
    """Return replicas of the average over the seeds."""
    return [combined(replicas) for replicas in zip(*(run.lucky for run in runs), strict=True)]


HEADER = (
    "strategy", "load", "on", "first token P50", "first token P99", "whole answer P50", "whole answer P99",
    "largest gap of shares", "refused", "spread", "seeds", "speed", "late, ms",
)  # fmt: skip


def table(rows: Sequence[tuple[Case, str, list[Run]]]) -> str:
    """Return cases, where they ran and their runs as Markdown."""
    lines = [f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|"]
    return "\n".join(lines + [f"| {' | '.join(_cells(*row))} |" for row in rows]) + "\n"


def _cells(case: Case, where: str, runs: list[Run]) -> list[str]:
    found = {gap.what: gap for gap in gaps(runs)}
    shares = [gap for gap in found.values() if gap.what.startswith("share of ")]
    widest = max(shares, key=lambda gap: abs(gap.measured - gap.predicted))
    refused = found.get("refused")
    return [
        case.strategy,
        f"{case.load:g}",
        where,
        *(_figures(found[what]) for what in agreement.LATENCIES),
        f"{100 * abs(widest.measured - widest.predicted):.1f} points{_mark(widest)}",
        "-" if refused is None else _figures(refused),
        _spread(runs),
        str(len(runs)),
        f"{min(run.speed for run in runs):.1f}-{max(run.speed for run in runs):.1f}",
        f"{1000 * max(max(run.driver_late_s, run.mocks_late_s) for run in runs):.0f}",
    ]


def _figures(gap: Gap) -> str:
    """Return the measured figure, the predicted one, and what chance makes of it."""
    low, high = map(gap.figure, gap.chance or (gap.predicted, gap.predicted))
    band = f", {low} to {high}" if low != high else ""
    return f"{gap.figure(gap.measured)} ({gap.figure(gap.predicted)}{band}){_mark(gap)}"


def _mark(gap: Gap) -> str:
    return "" if gap.agrees else " ~" if gap.by_chance else " late" if gap.by_lateness else " **!**"


def _spread(runs: Sequence[Run]) -> str:
    lucky = sorted(one.load_stdev or 0.0 for one in by_luck(runs))
    beyond = int(TAIL * len(lucky))
    now, before = (
        combined(some).load_stdev or 0.0
        for some in ([run.measured for run in runs], [run.predicted for run in runs])
    )
    return f"{now:.2f} ({before:.2f}, {lucky[beyond]:.2f} to {lucky[-1 - beyond]:.2f})"


def _say(text: str) -> None:
    if "once more" in text or text.startswith("not tried"):
        print(text, file=sys.stderr, flush=True)


def _where(target: str, generation: str | None) -> str:
    if generation is None:
        return f"{target} of this machine"
    found = versions(Proxy(generation, target).image)
    return f"{target} {found['nginx' if target == 'nginx' else 'haproxy']}"


def main() -> None:
    """Run the command line."""
    line = argparse.ArgumentParser(prog="integration.bench_agreement", description=__doc__)
    line.add_argument(
        "--generation", default="trixie", choices=(*GENERATIONS, "here"), help="or what is here"
    )
    line.add_argument("--strategy", action="append", choices=STRATEGIES)
    line.add_argument("--load", action="append", type=float)
    line.add_argument("--target", action="append", choices=THREE)
    line.add_argument("--seeds", type=int, default=3, help="runs of each row")
    line.add_argument("--requests", type=int, default=1500, help="in each run")
    line.add_argument("--parallel", type=int, default=8, metavar="N", help="N runs at a time")
    line.add_argument("--speed", type=float, default=1.0, help="at most so many times the GPUs' speed")
    line.add_argument("--keep", type=Path, help="file of finished runs: an interrupted bench goes on there")
    line.add_argument("--table", action="store_true", help="measure nothing, print what is kept")
    options = line.parse_args()
    kept = Kept(options.keep)
    if not options.table:
        _measure_all(kept, options)
    print(table(kept.rows()))


def _measure_all(kept: Kept, options: argparse.Namespace) -> None:
    """Measure what is not kept yet, so many at a time.

    Slow runs side by side are as quick as fast ones in turn, and more exact: our own delays count once.
    """
    generation = None if options.generation == "here" else options.generation
    missing = [
        (case, _where(case.target, generation), seed)
        for seed in range(1, options.seeds + 1)
        for case in cases(options)
        if not kept.has(case, _where(case.target, generation), seed)
    ]
    with ProcessPoolExecutor(options.parallel) as pool:
        for begin in range(0, len(missing), options.parallel):
            batch = missing[begin : begin + options.parallel]
            running = [
                pool.submit(measured, case, seed, options.requests, generation, options.speed)
                for case, _, seed in batch
            ]
            found = [one.result() for one in running]  # replicas would disturb those that still run
            for (case, where, seed), one in zip(batch, found, strict=True):
                kept.add(case, where, seed, with_luck(*one))
                print(f"{case.strategy} at {case.load} on {where}, {seed}: done", file=sys.stderr, flush=True)


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Yield what is asked for."""
    for load_ in options.load or LOADS:
        for strategy in options.strategy or STRATEGIES:
            for target in options.target or TARGETS:
                yield Case(strategy, load_, target)


if __name__ == "__main__":
    main()
