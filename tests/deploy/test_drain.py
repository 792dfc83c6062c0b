from __future__ import annotations

from pathlib import Path

import pytest

from lbgen.deploy import drain as module
from lbgen.deploy.drain import BySocket, Outcome, drain, put_back
from lbgen.deploy.runtime.runtime_socket import RuntimeSocket
from lbgen.problems import LbgenError
from tests.deploy.fake_haproxy import FakeHaproxy, Server

AGENT = 0x12


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.01)
    monkeypatch.setattr(module, "SETTLE_S", 0.0)


def drained(*balancers: FakeHaproxy, timeout_s: float = 20, bound: bool = False, name: str = "a") -> Outcome:
    places = [BySocket(str(one.path)) for one in balancers]
    return drain(places, "chat", name, bound=bound, timeout_s=timeout_s, report=lambda _: None)


def test_waits_for_the_last_request_of_every_balancer(tmp_path: Path) -> None:
    heard: list[int] = []
    with (
        FakeHaproxy(tmp_path / "1", a=Server(in_flight=2)) as one,
        FakeHaproxy(tmp_path / "2", a=Server(in_flight=4)) as two,
    ):
        outcome = drain(
            [BySocket(str(one.path)), BySocket(str(two.path))],
            "chat",
            "a",
            timeout_s=20,
            report=lambda it: heard.append(it.in_flight),
        )
    assert outcome.in_flight == 0
    assert not outcome.silent
    assert heard == [4, 2, 1, 0], "the first look of each came before it was taken out"
    assert one.said == two.said == ["set server chat/a state drain"]


def test_the_time_ends_and_the_server_is_out(tmp_path: Path) -> None:
    with FakeHaproxy(tmp_path / "1", a=Server(in_flight=1_000_000)) as one:
        outcome = drained(one, timeout_s=0.05)
        assert outcome.in_flight > 0
        assert outcome.waited_s >= 0.05
        assert one.servers["a"].admin == 8


def test_an_agent_is_silenced_and_heard_again(tmp_path: Path) -> None:
    with FakeHaproxy(tmp_path / "1", a=Server(agent=AGENT)) as one:
        drained(one)
        put_back(RuntimeSocket(str(one.path)), "chat", "a")
    assert one.said == [
        "disable agent chat/a",
        "set server chat/a state drain",
        "set server chat/a state ready",
        "enable agent chat/a",
    ]


def test_maintenance_is_not_loosened(tmp_path: Path) -> None:
    with FakeHaproxy(tmp_path / "1", a=Server(admin=1)) as one:
        drained(one)
    assert one.said == []


def test_bound_clients_are_kept_away_by_maintenance(tmp_path: Path) -> None:
    with FakeHaproxy(tmp_path / "1", a=Server()) as one:
        drained(one, bound=True)
    assert one.said == ["set server chat/a state maint"]


def test_a_silent_balancer_does_not_stop_the_others(tmp_path: Path) -> None:
    with FakeHaproxy(tmp_path / "1", a=Server(in_flight=3)) as one:
        outcome = drain(
            [BySocket(str(tmp_path / "nobody")), BySocket(str(one.path))],
            "chat",
            "a",
            timeout_s=20,
            report=lambda _: None,
        )
    assert [seen.place for seen in outcome.silent] == [str(tmp_path / "nobody")]
    assert outcome.in_flight == 0
    assert one.servers["a"].admin == 8


def test_nonsense_from_a_balancer_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeHaproxy(tmp_path / "1", a=Server()) as one, FakeHaproxy(tmp_path / "2", a=Server()) as two:
        monkeypatch.setattr(two, "_answer", lambda _: "\x00\r,\n" * 9)
        outcome = drained(two, one)
    assert [seen.place for seen in outcome.silent] == [str(two.path)]
    assert one.servers["a"].admin == 8


def test_a_reload_in_between_is_not_taken_for_the_end(tmp_path: Path) -> None:
    with FakeHaproxy(tmp_path / "1", a=Server(in_flight=50)) as one:

        def report(_: Outcome) -> None:
            one.pid, one.servers["a"].in_flight = 101, 0

        outcome = drain([BySocket(str(one.path))], "chat", "a", timeout_s=20, report=report)
    assert "HAProxy was reloaded" in outcome.silent[0].error


def test_somebody_else_puts_it_back(tmp_path: Path) -> None:
    with FakeHaproxy(tmp_path / "1", a=Server(in_flight=50)) as one:

        def report(_: Outcome) -> None:
            one.servers["a"].admin = 0

        outcome = drain([BySocket(str(one.path))], "chat", "a", timeout_s=20, report=report)
    assert "put back into rotation by another program or person" in outcome.silent[0].error


def test_an_unknown_server_is_named_with_those_that_run(tmp_path: Path) -> None:
    with FakeHaproxy(tmp_path / "1", a=Server(), b=Server()) as one:
        with pytest.raises(LbgenError, match="has no server chat/c: pool chat has a, b"):
            put_back(RuntimeSocket(str(one.path)), "chat", "c")
        assert "has no server chat/c" in drained(one, name="c").silent[0].error
