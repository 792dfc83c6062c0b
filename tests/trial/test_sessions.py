"""Sessions that a trial names in the body, and those that servers or the balancer name."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.lab.load import Planned, Result
from lbgen.lab.trial.load.sending import Sender
from lbgen.lab.trial.stage.mapping import CHAT, way_to
from lbgen.simulate.load.named import workload

SPEED = 100.0
LOAD = "chat:turns=3,think_s=1"


def _sender(strategy: str, load_name: str = LOAD) -> tuple[Sender, list[Planned]]:
    written = f"pools: {{chat: {{servers: [a:1], strategy: {{name: session, {strategy}}}}}}}\n"
    fleet = load([Source("fleet.yaml", written)], environ={}).fleet
    assert fleet is not None
    made, pool = workload(load_name), fleet.pools[0]
    sender = Sender(made, way_to(fleet, pool, chat=True), pool, [])
    return sender, sender.planned(made.requests(1, 1.0, 9), SPEED)


def _leaving(planned: Planned | None) -> Planned:
    assert planned is not None
    return planned.leaving(planned) if planned.leaving else planned


def _answered(planned: Planned, **headers: str) -> Result:
    tail = b"data: [DONE]\n\n"
    return Result(planned, ended_s=planned.at_s + 1, status=200, tail=tail, headers=headers)


@pytest.mark.parametrize(
    ("path", "fields"),
    [("$.user", {"user": "s0"}), ("$.metadata.user_id", {"metadata": {"user_id": "s0"}})],
)
def test_a_body_names_the_session_where_the_strategy_reads_it(path: str, fields: dict[str, object]) -> None:
    _, (first, *_) = _sender(f'body: "{path}"')
    assert _leaving(first).fields == fields


@pytest.mark.parametrize(
    ("strategy", "answer", "sent"),
    [
        ("learn: {header: Mcp-Session-Id}", {"Mcp-Session-Id": "n1"}, {"headers": {"Mcp-Session-Id": "n1"}}),
        ("learn: {header: X-S}, cookie: sid", {"X-S": "n1"}, {"headers": {"Cookie": "sid=n1"}}),
        ("learn: {header: X-S}, query: sid", {"X-S": "n1"}, {"path": f"{CHAT}?sid=n1"}),
        ('learn: {header: X-S}, body: "$.user"', {"X-S": "n1"}, {"fields": {"user": "n1"}}),
        ("insert: lb", {"Set-Cookie": "lb=g0; path=/; HttpOnly"}, {"headers": {"Cookie": "lb=g0"}}),
    ],
)
def test_a_session_has_the_name_that_its_first_answer_gave(
    strategy: str, answer: dict[str, str], sent: dict[str, object]
) -> None:
    sender, (first, other, *_) = _sender(strategy)
    bare = _leaving(first)
    assert (bare.headers, bare.path, bare.fields) == ({}, CHAT, {})
    second = _leaving(sender.follow(_answered(first, **answer)))
    third = _leaving(sender.follow(_answered(second, **dict.fromkeys(answer, "other"))))
    for turn in (second, third):
        assert {key: getattr(turn, key) for key in sent} == sent
    assert _leaving(other).headers == {}


def test_a_request_that_was_planned_before_its_session_had_a_name_leaves_with_it() -> None:
    sender, (first, *_) = _sender("learn: {header: X-S}")
    sender.follow(_answered(first, **{"X-S": "n1"}))
    assert _leaving(first).headers["X-S"] == "n1"


def test_the_next_run_begins_without_names() -> None:
    sender, (first, *_) = _sender("learn: {header: X-S}")
    sender.follow(_answered(first, **{"X-S": "n1"}))
    again, *_ = sender.planned([one for one in [first.origin] if one], SPEED)  # type: ignore[misc]
    assert "X-S" not in _leaving(again).headers
