"""Whether `lbgen simulate` predicts what the real programs do: ``python -m integration.bench_agreement``.

Each strategy at each load on each target, over several seeds, with the same requests in both. A figure is the
average over the seeds of each run's figure, as `simulate` tells it. Beside each prediction stands what chance
makes of it: between which values lie 98 % of its replicas, in which requests that arrive almost together swap
places and the balancers draw otherwise. Prints a table in Markdown.

``--keep FILE`` adds each row to a file when it is done; ``--table FILE`` prints the table of all of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from integration.fleets import TARGETS, Proxy, chat
from integration.images import GENERATIONS, resolve, versions
from lbgen.fleet.load import load
from lbgen.fleet.source import Source
from lbgen.lab.trial import agreement
from lbgen.lab.trial.conduct import conduct, plan
from lbgen.lab.trial.containers import Containers
from lbgen.lab.trial.processes import Processes
from lbgen.simulate.chance import replicas
from lbgen.simulate.named import workload
from lbgen.simulate.result import combined
from lbgen.simulate.run import Task, sweep
from lbgen.simulate.study import Plan, Question

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.lab.trial.agreement import Gap
    from lbgen.lab.trial.measure import Lateness
    from lbgen.simulate.result import Figures

SLOTS = 32
QUEUE = "central queue"
STRATEGIES = ("round_robin", "least_conn", "random_two", QUEUE)
LOADS = (0.5, 0.8, 0.9)
LUCK = 100
"""Replicas of each prediction."""
TAIL = 0.01
"""The share of the replicas that lies beyond each end of the band."""


class Case(NamedTuple):
    """A row of the table."""

    strategy: str
    load: float
    target: str
    slots: int = SLOTS


class Runs(NamedTuple):
    """What one case gave, seed by seed."""

    predicted: tuple[Figures, ...]
    measured: tuple[Figures, ...]
    late: tuple[Lateness, ...]
    speed: float
    lucky: tuple[Figures, ...]
    """Replicas of the prediction, each averaged over the seeds."""
    slack_s: float


def question(case: Case, seed: int, requests: int) -> Question:
    """Return what is asked for one seed."""
    queue = case.strategy == QUEUE
    text = chat("least_conn" if queue else case.strategy, **({"max_in_flight": case.slots} if queue else {}))
    text["listeners"] = {"default": {"bind": "127.0.0.1:8080"}}
    fleet = load([Source("fleet.yaml", yaml.safe_dump(text))], environ={}).fleet
    assert fleet is not None
    pool = fleet.pools[0]
    return Question(
        fleet, pool, (pool.strategy.name,), (case.target,), workload("bimodal"), requests, (seed,),
        load=case.load, slots=case.slots, alone=True,
    )  # fmt: skip


@contextmanager
def runtime(name: str, generation: str) -> Iterator[Containers | Processes]:
    """Give containers with the images of a generation, or programs of this machine."""
    if name == "process":
        with Processes() as here:
            yield here
        return
    images = {target: Proxy(generation, target).image for target in TARGETS}
    with Containers({**images, "mock": resolve("bookworm", "python")}) as containers:
        yield containers


def measure(case: Case, seeds: Sequence[int], requests: int, where: tuple[str, str]) -> Runs:
    """Predict and measure one case."""
    predicted: list[Figures] = []
    measured: list[Figures] = []
    lucky: list[list[Figures]] = []
    late, speed, slack_s = [], 0.0, 0.0
    for seed in seeds:
        made = plan(question(case, seed, requests), _say)
        with runtime(*where) as there:
            (row,) = conduct(made, there, _say)
        predicted += row.predicted.runs
        measured += row.measured.runs
        late.append(row.late)
        speed = max(speed, row.speed)
        task = _task(made.predictions[0].question, seed)
        slack_s = max(slack_s, _slack_s(task, row.speed))
        lucky.append(list(sweep(replicas(task, LUCK, agreement.WALL_S * row.speed))))
    by_luck = tuple(combined(runs) for runs in zip(*lucky, strict=True))
    return Runs(tuple(predicted), tuple(measured), tuple(late), speed, by_luck, slack_s)


def _task(asked: Question, seed: int) -> Task:
    made = Plan.of(asked)
    return Task(made.setups[0], asked.workload, made.rate_per_s, asked.requests, seed)


def _slack_s(task: Task, speed: float) -> float:
    profile = task.setup.servers[0].profile
    return agreement.slack_s(profile.step + profile.per_request * profile.slots, speed)


def gaps(runs: Runs, *, tail: float = TAIL) -> list[Gap]:
    """Return how far prediction and measurement are apart, over all seeds."""
    found = agreement.gaps(
        combined(runs.predicted), combined(runs.measured), runs.slack_s, runs.lucky, tail=tail
    )
    return [gap for gap in found if gap.what != "refused" or gap.predicted or gap.measured]


def as_row(case: Case, runs: Runs, where: str) -> dict[str, Any]:
    """Return what is kept of a case."""
    return {
        "case": case._asdict(),
        "where": where,
        "speed": round(runs.speed, 2),
        "late_ms": [round(1000 * max(one.driver.p99_s for one in runs.late), 1),
                    round(1000 * max(one.mocks_p99_s for one in runs.late), 1)],
        "spread": _spread(runs),
        "gaps": [gap._asdict() for gap in gaps(runs)],
    }  # fmt: skip


def _spread(runs: Runs) -> list[float]:
    """Return the spread of requests in flight: measured, predicted, and the ends of the predictions."""
    lucky = sorted(one.load_stdev or 0.0 for one in runs.lucky)
    beyond = int(TAIL * len(lucky))
    values = [combined(runs.measured).load_stdev, combined(runs.predicted).load_stdev]
    return [round(value or 0.0, 2) for value in (*values, lucky[beyond], lucky[-1 - beyond])]


HEADER = (
    "strategy", "load", "on", "first token P50", "first token P99", "whole answer P50", "whole answer P99",
    "largest gap of shares", "refused", "spread", "speed", "late, ms",
)  # fmt: skip


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows that were kept as Markdown."""
    lines = [f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|"]
    return "\n".join(lines + [f"| {' | '.join(_cells(row))} |" for row in rows]) + "\n"


def _cells(row: dict[str, Any]) -> list[str]:
    found = {gap.what: gap for gap in (agreement.Gap(**one) for one in row["gaps"])}
    shares = [gap for gap in found.values() if gap.what.startswith("share of ")]
    widest = max(shares, key=lambda gap: abs(gap.measured - gap.predicted))
    points = f"{100 * abs(widest.measured - widest.predicted):.1f} points{_mark(widest)}"
    refused = found.get("refused")
    case, (driver, mocks) = row["case"], row["late_ms"]
    now, before, low, high = row["spread"]
    latencies = [_figures(found[what]) for what in agreement.LATENCIES]
    return [
        case["strategy"], f"{case['load']:g}", row["where"], *latencies, points,
        "-" if refused is None else _figures(refused),
        f"{now:.2f} ({before:.2f}, {low:.2f}-{high:.2f})", f"{row['speed']:.1f}", f"{driver} / {mocks}",
    ]  # fmt: skip


def _figures(gap: Gap) -> str:
    """Return the measured figure, the predicted one, and what chance makes of it."""
    low, high = gap.chance or (gap.predicted, gap.predicted)
    band = f", {gap.figure(low)}-{gap.figure(high)}" if low != high else ""
    return f"{gap.figure(gap.measured)} ({gap.figure(gap.predicted)}{band}){_mark(gap)}"


def _mark(gap: Gap) -> str:
    return "" if gap.agrees else " ~" if gap.by_chance else " late" if gap.by_lateness else " **!**"


def _say(text: str) -> None:
    if text.startswith(("once more", "not tried")):
        print(text, file=sys.stderr, flush=True)


def _where(target: str, runtime_name: str, generation: str) -> str:
    if runtime_name == "process":
        return target
    found = versions(Proxy(generation, target).image)
    return f"{target} {found['nginx' if target == 'nginx' else 'haproxy']}"


def main() -> None:
    """Run the command line."""
    line = argparse.ArgumentParser(prog="integration.bench_agreement", description=__doc__)
    line.add_argument("--runtime", choices=("docker", "process"), default="docker")
    line.add_argument("--generation", default="trixie", choices=tuple(GENERATIONS))
    line.add_argument("--strategy", action="append", choices=STRATEGIES)
    line.add_argument("--load", action="append", type=float)
    line.add_argument("--target", action="append", choices=TARGETS)
    line.add_argument("--seeds", type=int, default=5, help="runs of each row")
    line.add_argument("--requests", type=int, default=2000, help="in each run")
    line.add_argument("--keep", type=Path, metavar="FILE", help="add each row to this file, a line of JSON")
    line.add_argument("--table", type=Path, metavar="FILE", help="measure nothing, print what FILE holds")
    options = line.parse_args()
    if options.table:
        print(table([json.loads(text) for text in options.table.read_text().splitlines()]))
        return
    rows = []
    for case in cases(options):
        runs = measure(
            case, range(1, options.seeds + 1), options.requests, (options.runtime, options.generation)
        )
        rows.append(as_row(case, runs, _where(case.target, options.runtime, options.generation)))
        print(f"{' '.join(map(str, case))}: done", file=sys.stderr, flush=True)
        if options.keep:
            with options.keep.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    print(table(rows))


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Yield what is asked for."""
    for strategy in options.strategy or STRATEGIES:
        for load_ in options.load or LOADS:
            for target in options.target or TARGETS:
                yield Case(strategy, load_, target)


if __name__ == "__main__":
    main()
