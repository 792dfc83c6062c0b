"""Runs of `integration.bench_agreement`, and the file that keeps them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.simulate.runs.result import Figures, ServerFigures, Spread

if TYPE_CHECKING:
    from pathlib import Path

SLOTS = 32
QUEUE = "central queue"
STRATEGIES = ("round_robin", "least_conn", "random_two", QUEUE)


class Case(NamedTuple):
    """A row of the table."""

    strategy: str
    load: float
    target: str
    slots: int = SLOTS


class Run(NamedTuple):
    """What one case gave with one seed."""

    predicted: Figures
    measured: Figures
    lucky: tuple[Figures, ...]
    """Replicas of the prediction."""
    driver_late_s: float
    mocks_late_s: float
    speed: float
    slack_s: float


class Kept:
    """Finished runs, in a file where one is given."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.runs: dict[tuple[Case, str], dict[int, Run]] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                one = json.loads(line)
                self._note(Case(*one["case"]), one["where"], one["seed"], _run(one["run"]))

    def add(self, case: Case, where: str, seed: int, run: Run) -> None:
        """Keep a run."""
        self._note(case, where, seed, run)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps({"case": case, "where": where, "seed": seed, "run": _bare(run)}) + "\n")

    def has(self, case: Case, where: str, seed: int) -> bool:
        """Tell whether a run is there."""
        return seed in self.runs.get((case, where), {})

    def rows(self) -> list[tuple[Case, str, list[Run]]]:
        """Return all runs, in the table's order."""
        ordered = sorted(
            self.runs, key=lambda row: (STRATEGIES.index(row[0].strategy), row[0].load, row[0].target)
        )
        return [(case, where, list(self.runs[case, where].values())) for case, where in ordered]

    def _note(self, case: Case, where: str, seed: int, run: Run) -> None:
        self.runs.setdefault((case, where), {})[seed] = run


def _bare(run: Run) -> Run:
    """Return a run without curves, which the table does not need."""

    def bare(one: Figures) -> Figures:
        return one._replace(curves={}, in_flight=())

    return run._replace(
        predicted=bare(run.predicted), measured=bare(run.measured), lucky=tuple(map(bare, run.lucky))
    )


def _run(values: list[Any]) -> Run:
    predicted, measured, lucky, *rest = values
    return Run(_read(predicted), _read(measured), tuple(map(_read, lucky)), *rest)


def _read(values: list[Any]) -> Figures:
    one = Figures(*values)
    return one._replace(
        ttft_s=Spread(*one.ttft_s),
        e2e_s=Spread(*one.e2e_s),
        queue_s=Spread(*one.queue_s),
        servers=tuple(ServerFigures(*server) for server in one.servers),
    )
