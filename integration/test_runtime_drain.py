"""Draining a server of a running HAProxy, with streams in flight."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from integration.fleets import on_one_queueing, on_queueing
from integration.runtime_site import Load, Runtime, begun_after, now, runtime
from integration.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.fleets import Proxy
    from lbgen.lab.boxes import MockBox

VICTIM = 1


@pytest.fixture
def site(proxy: Proxy, mocks: list[MockBox]) -> Iterator[Runtime]:
    """A HAProxy in front of four mocks."""
    with runtime(proxy, mocks) as made:
        yield made


@on_queueing
def test_no_new_request_and_none_lost(site: Runtime) -> None:
    victim = site.mocks[VICTIM]
    with Load(site, tokens=30) as running:
        eventually(lambda: site.running()["gpu-1"].in_flight > 0, 20, "the server has streams")
        process = site.start("drain", site.fleet(), "chat/gpu-1")
        assert process.stderr
        first = process.stderr.readline()
        drained = now()
        out, err = process.communicate(timeout=60)
        idle = now()
        assert begun_after(victim, drained) == []
        assert victim.in_flight()[-1][1] == 0, "it waited for the last stream"
        assert "request" in first
        assert "in flight" in first
        assert process.returncode == 0, err
        assert "chat/gpu-1: drained, no request in flight" in out
        assert idle - drained > 0.5, "there were streams to wait for"

        back = site.lbgen("undrain", site.fleet(), "chat/gpu-1")
        assert back.returncode == 0, back.stderr
        assert "chat/gpu-1: back in rotation" in back.stdout
        eventually(lambda: bool(begun_after(victim, idle)), 20, "it gets requests again")
    assert running.lost == []


@on_one_queueing
def test_when_the_time_is_over_it_stays_drained(site: Runtime) -> None:
    with Load(site, tokens=200):
        eventually(lambda: site.running()["gpu-1"].in_flight > 0, 20, "the server has streams")
        done = site.lbgen("drain", site.fleet(), "chat/gpu-1", "--timeout", "1s", "--format", "json")
        assert done.returncode == 2
        assert "in flight after 1 s; it stays drained" in done.stderr
        answer = json.loads(done.stdout)
        assert answer["drained"] is False
        assert answer["in_flight"] == answer["balancers"][0]["in_flight"] > 0
        assert site.running()["gpu-1"].held == "drain"

        process = site.start("drain", site.fleet(), "chat/gpu-1")
        assert process.stderr
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 130
        assert "chat/gpu-1 stays drained" in err
        assert site.running()["gpu-1"].held == "drain"


@on_one_queueing
def test_several_balancers_one_of_them_silent(site: Runtime, mocks: list[MockBox]) -> None:
    dead = f"{site.root}/nobody.sock"
    with runtime(site.proxy, mocks) as other:
        sockets = ("--socket", site.place, "--socket", other.place)
        done = site.lbgen("drain", site.fleet(), "chat/gpu-2", *sockets)
        assert done.returncode == 0, done.stderr
        assert [one.running()["gpu-2"].held for one in (site, other)] == ["drain", "drain"]

        for command in ("undrain", "drain"):
            done = site.lbgen(command, site.fleet(), "chat/gpu-2", *sockets, "--socket", dead)
            assert done.returncode == 2
            assert f"{dead}: no answer on the runtime socket" in done.stderr
            held = "drain" if command == "drain" else ""
            assert [one.running()["gpu-2"].held for one in (site, other)] == [held, held]


STRATEGIES: dict[str, dict[str, Any]] = {
    "pack": {"strategy": "pack", "max_in_flight": 4},
    "session": {"strategy": {"name": "session", "header": "X-Session-Id"}},
}
"""Those that always take the same server."""


@pytest.mark.parametrize("strategy", STRATEGIES)
@on_queueing
def test_the_one_server_that_all_go_to(proxy: Proxy, mocks: list[MockBox], strategy: str) -> None:
    pool = STRATEGIES[strategy]
    with (
        runtime(proxy, mocks, **pool) as site,
        Load(site, parallel=1, tokens=3, **{"X-Session-Id": "one"}) as running,
    ):
        eventually(lambda: any(len(begun_after(mock, 0)) > 3 for mock in site.mocks), 20, "one has them all")
        [taken] = [number for number, mock in enumerate(site.mocks) if len(begun_after(mock, 0)) > 3]
        done = site.lbgen("drain", site.fleet(**pool), f"chat/gpu-{taken}")
        assert done.returncode == 0, done.stderr
        idle = now()
        eventually(lambda: any(len(begun_after(mock, idle)) > 3 for mock in site.mocks), 20, "another serves")
        assert begun_after(site.mocks[taken], idle) == []
    assert running.lost == []


@on_queueing
def test_a_server_with_learned_sessions_gets_none(site: Runtime) -> None:
    """A stick table would send bound clients to a server that is only drained."""
    fleet = site.fleet(max_in_flight=8, strategy={"name": "prefix", "key": "first_bytes", "bytes": 64})
    assert site.apply(fleet).returncode == 0
    with Load(site, parallel=1, tokens=3) as running:
        eventually(lambda: any(begun_after(mock, 0) for mock in site.mocks), 20, "somebody is bound")
        [bound] = [number for number, mock in enumerate(site.mocks) if begun_after(mock, 0)]
        done = site.lbgen("drain", fleet, f"chat/gpu-{bound}")
        idle = now()
        assert done.returncode == 0, done.stderr
        eventually(
            lambda: sum(bool(begun_after(mock, idle)) for mock in site.mocks) == 1, 20, "another serves"
        )
        assert begun_after(site.mocks[bound], idle) == []
        assert site.running()[f"gpu-{bound}"].held == "maint"
        assert site.lbgen("undrain", fleet, f"chat/gpu-{bound}").returncode == 0
        assert site.running()[f"gpu-{bound}"].held == ""
    assert running.lost == []
