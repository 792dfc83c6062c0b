"""A trial that this machine disturbs is repeated, slower, or not told at all."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.lab.load import Lateness as DriverLateness
from lbgen.lab.trial.asked.planning import plan
from lbgen.lab.trial.conduct import Measured, conduct
from lbgen.lab.trial.load import measure
from lbgen.lab.trial.load.measure import Lateness, Taken, TooLateError
from lbgen.lab.trial.stage.mapping import Standing
from lbgen.lab.trial.stage.ready import Serving
from lbgen.simulate.answers.study import Plan as Runs
from lbgen.simulate.answers.study import Question
from lbgen.simulate.load.named import workload
from lbgen.simulate.runs.run import run
from lbgen.units import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FLEET = "pools: {chat: {servers: ['gpu-[0-1]:8000'], max_in_flight: 32}}\n"
NOWHERE = Address("127.0.0.1", 1)


class Nothing:
    """A runtime in which nothing runs."""

    name = "nothing"

    def mocks(self, settings: Sequence[Any], _pool: Any) -> dict[str, Standing]:
        return {str(one["name"]): Standing(NOWHERE, NOWHERE) for one in settings}

    @contextmanager
    def balancer(self, asked: Any, _way: Any) -> Iterator[Serving]:
        yield Serving("http://nowhere", None, asked.fleet, ())


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Measured, list[float], list[str]]]:
    """Conduct a trial whose runs are as late as stated, in seconds; None: too late to tell."""

    def conducted(*late_s: float | None) -> tuple[Measured, list[float], list[str]]:
        fleet = load([Source("fleet.yaml", FLEET)], environ={}).fleet
        assert fleet is not None
        question = Question(
            fleet, fleet.pools[0], ("least_conn",), ("haproxy",), workload("bimodal"), 60, (1,), alone=True
        )
        speeds: list[float] = []
        notes: list[str] = []
        rest = iter(late_s)

        def pretended(_serving: Any, _sent: Any, _servers: Any, speed: float) -> Taken:
            speeds.append(speed)
            late = next(rest)
            if late is None:
                raise TooLateError("the load driver was 200 ms late")
            return Taken(run(Runs.of(question).tasks()[0]), Lateness(DriverLateness(late, late), 0.0))

        monkeypatch.setattr(measure, "measure", pretended)
        made = plan(question, notes.append)
        (row,) = conduct(made, Nothing(), notes.append)
        return row, speeds, [note for note in notes if "once more" in note]

    return conducted


def test_a_run_in_time_is_measured_once(measured: Callable[..., Any]) -> None:
    row, speeds, notes = measured(0.001)
    assert (len(speeds), row.speed, notes) == (1, speeds[0], [])
    assert all(gap.agrees for gap in row.gaps)


def test_a_late_run_is_repeated_once_at_half_the_speed_and_told_in_any_case(
    measured: Callable[..., Any],
) -> None:
    row, speeds, (note,) = measured(0.09, 0.08)
    assert speeds == [2 * row.speed, row.speed]
    assert "90 ms late" in note
    assert row.late.driver.p99_s == 0.08


def test_what_is_too_late_is_tried_three_times_and_never_told(measured: Callable[..., Any]) -> None:
    row, speeds, _ = measured(None, None, 0.001)
    assert row.speed == speeds[0] / 4
    with pytest.raises(TooLateError, match="200 ms late"):
        measured(None, None, None)
