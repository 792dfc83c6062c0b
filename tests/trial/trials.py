"""A trial's outcome without a trial: the prediction of another seed stands for what was measured."""

from __future__ import annotations

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.lab.load import Lateness as DriverLateness
from lbgen.lab.trial.conduct import Measured, Trial
from lbgen.lab.trial.load.measure import Lateness
from lbgen.lab.trial.results import agreement
from lbgen.simulate.answers.study import Question, answer
from lbgen.simulate.load.named import workload

FLEET = "pools: {chat: {servers: ['gpu-[0-2]:8000']}}\n"


def made_up(name: str = "bimodal", strategies: tuple[str, ...] = ("round_robin", "least_conn")) -> Trial:
    """Return a trial of both targets."""
    fleet = load([Source("fleet.yaml", FLEET)], environ={}).fleet
    assert fleet is not None
    asked = Question(
        fleet, fleet.pools[0], strategies, ("nginx", "haproxy"), workload(name), 300, (1,), alone=True
    )
    found, other = answer(asked), answer(asked._replace(seeds=(2,)))
    late = Lateness(DriverLateness(0.001, 0.002), 0.003)
    rows = [
        Measured(
            predicted, measured, late, tuple(agreement.gaps(predicted.runs[0], measured.runs[0], 0.01)), 1.0
        )
        for predicted, measured in zip(found.rows, other.rows, strict=True)
    ]
    return Trial(found, tuple(rows), 1.0, "process")
