"""Why requests failed: by status, rule and client, with keys that the fleet has."""

from __future__ import annotations

import json

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.lab.load import Planned, Result
from lbgen.lab.trial.results.failures import Failure, failures, told
from lbgen.lab.trial.results.told import as_json_shape, text
from lbgen.model import Fleet
from lbgen.targets.common.answers import ANSWERS
from tests.trial.trials import made_up

FLEET = """
pools: {chat: {servers: [a:1], %s}}
clients: {batch: {key: env:A, %s}, other: {key: env:B, rate: 5/s}}
listeners: {in: {bind: "127.0.0.1:1", auth: {clients: all}, %s routes: [{pool: chat}]}}
"""


EVERY = ("clients.batch.max_in_flight", "clients.batch.rate", "listeners.in.limits")
WITHOUT = " (all clients send alike; '--set clients.batch=null' leaves it out)"


def fleet_of(pool: str = "keepalive: false", client: str = "priority: 0", listener: str = "") -> Fleet:
    found = load([Source("fleet.yaml", FLEET % (pool, client, listener))], environ={"A": "a", "B": "b"})
    assert found.fleet is not None, found.problems
    return found.fleet


def refused(name: str, client: str | None = "batch") -> Result:
    answer = ANSWERS[name]
    return Result(Planned(0.0, 5, client=client), status=answer.status, tail=answer.body.encode())


def test_alike_failures_are_counted_together_the_most_frequent_first() -> None:
    fine = Result(Planned(0.0, 5), status=200, tail=b"data: [DONE]\n\n")
    found = failures(
        [
            refused("unavailable"), refused("rate_limited"), fine, refused("rate_limited"),
            Result(Planned(0.0, 5), error="ClientOSError"),
            Result(Planned(0.0, 5), status=502, tail=b"<html>"),
        ]
    )  # fmt: skip
    assert found[0] == Failure("429", "rate_limit_exceeded", "batch", 2)
    assert set(found[1:]) == {
        Failure("503", "service_unavailable", "batch", 1),
        Failure("ClientOSError", None, None, 1),
        Failure("502", None, None, 1),
    }


@pytest.mark.parametrize(
    ("failure", "fleet", "line"),
    [
        (
            Failure("429", "rate_limit_exceeded", "batch", 156),
            fleet_of(client="max_in_flight: 4"),
            f"156 x 429 (rate_limit_exceeded) for client batch; see clients.batch.max_in_flight{WITHOUT}",
        ),
        (
            Failure("429", None, "batch", 1),
            fleet_of(client="max_in_flight: 4, rate: 9/s", listener="limits: [{rate: 9/s, per: total}],"),
            f"1 x 429 for client batch; see {' or '.join(EVERY)}{WITHOUT}",
        ),
        (Failure("429", None, "batch", 2), fleet_of(), "2 x 429 for client batch"),
        (
            Failure("503", None, None, 3),
            fleet_of(pool="max_in_flight: 2"),
            "3 x 503; see pools.chat.max_in_flight or pools.chat.queue",
        ),
        (Failure("503", None, None, 3), fleet_of(), "3 x 503"),
        (Failure("ClientOSError", None, None, 1), fleet_of(), "1 x ClientOSError"),
    ],
)
def test_the_line_names_only_keys_that_the_fleet_has(failure: Failure, fleet: Fleet, line: str) -> None:
    assert list(told([failure], fleet, fleet.listeners[0], fleet.pools[0])) == [line]


def test_the_headline_says_what_failed() -> None:
    trial = made_up()
    row = trial.rows[0]
    (run,) = row.measured.runs
    bad = row.measured._replace(runs=(run._replace(ok=run.requests - 75),))
    failed = (Failure("429", "rate_limit_exceeded", "batch", 75),)
    trial = trial._replace(
        rows=(row._replace(measured=bad, failures=failed, why=("75 x 429",)), *trial.rows[1:])
    )
    second = text(trial).splitlines()[1]
    assert second == "FAILED under round_robin on nginx: 75 of 300 requests (25.0%): 75 x 429"
    assert max(map(len, text(trial, 80).splitlines())) <= 80
    (shown, *rest) = json.loads(json.dumps(as_json_shape(trial)))["results"]
    assert shown["failures"] == [
        {"reason": "429", "code": "rate_limit_exceeded", "client": "batch", "times": 75}
    ]
    assert rest[0]["failures"] == []
