"""A server that was drained at run time stays out of rotation through every apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.fleets import on_one_queueing, on_queueing
from integration.runtime_site import Load, Runtime, begun_after, now, runtime
from integration.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.fleets import Proxy
    from lbgen.lab.boxes import MockBox


@pytest.fixture
def site(proxy: Proxy, mocks: list[MockBox]) -> Iterator[Runtime]:
    """A HAProxy in front of four mocks."""
    with runtime(proxy, mocks) as made:
        yield made


def files_of(site: Runtime) -> list[str]:
    return sorted(path.name for path in site.folder.iterdir())


@on_queueing
def test_no_request_reaches_it_through_reloads(site: Runtime) -> None:
    before = files_of(site)
    assert site.lbgen("drain", site.fleet(), "chat/gpu-1").returncode == 0
    drained = now()
    with Load(site, parallel=12, tokens=3) as running:
        for strategy in ("random_two", "least_conn", "round_robin"):
            fleet = site.fleet(strategy=strategy)
            done = site.apply(fleet)
            assert done.returncode == 0, done.stderr
            assert "gpu-1, taken out at run time, stays drained until 'lbgen undrain'" in done.stderr
            assert "in rotation for a moment" not in done.stderr
            assert site.lbgen("render", fleet, "-o", str(site.root), "--check").returncode == 0
            assert sorted(set(files_of(site)) - {".lbgen-backup", ".lbgen.lock"}) == before
            assert site.running()["gpu-1"].held == "drain"
        assert begun_after(site.mocks[1], drained) == []

        assert site.lbgen("undrain", fleet, "chat/gpu-1").returncode == 0
        eventually(lambda: bool(begun_after(site.mocks[1], drained)), 20, "it gets requests again")
    assert running.lost == []
    assert len(running.results) >= 100


@on_queueing
def test_after_a_drain_a_reload_and_an_undrain_it_is_checked_as_before(site: Runtime) -> None:
    fleet = site.fleet(health={"interval": "300ms", "timeout": "300ms", "path": "/health"})
    assert site.apply(fleet).returncode == 0
    assert site.lbgen("drain", fleet, "chat/gpu-1").returncode == 0
    fleet["pools"]["chat"]["strategy"] = "round_robin"
    assert site.apply(fleet).returncode == 0
    assert site.lbgen("undrain", fleet, "chat/gpu-1").returncode == 0
    eventually(lambda: site.running()["gpu-1"].check.startswith("L7OK"), 10, "a check has finished")
    assert "no finished health check" not in site.lbgen("status", fleet).stdout
    site.mocks[1].fault("status", status=503, path="/health")
    try:
        eventually(lambda: site.running()["gpu-1"].state == "down", 10, "its failure is seen")
    finally:
        site.mocks[1].heal()
    eventually(lambda: site.running()["gpu-1"].state == "up", 10, "its recovery is seen")


@on_one_queueing
def test_a_server_that_failed_while_it_was_drained_gets_no_request_at_once(site: Runtime) -> None:
    fleet = site.fleet(health={"interval": "2s", "fall": 3, "path": "/health"})
    assert site.apply(fleet).returncode == 0
    assert site.lbgen("drain", fleet, "chat/gpu-1").returncode == 0
    site.mocks[1].fault("status", status=503, path="/health")
    try:
        eventually(lambda: site.running()["gpu-1"].state == "down", 20, "its failure is seen")
        fleet["pools"]["chat"]["strategy"] = "round_robin"
        assert site.apply(fleet).returncode == 0
        assert "gets no requests" in site.lbgen("undrain", fleet, "chat/gpu-1").stdout
    finally:
        site.mocks[1].heal()
    eventually(lambda: site.running()["gpu-1"].state == "up", 20, "its recovery is seen")


@on_one_queueing
def test_a_reload_that_fails_and_one_over_the_socket_keep_it(site: Runtime) -> None:
    assert site.lbgen("drain", site.fleet(), "chat/gpu-1").returncode == 0
    drained = now()
    with Load(site, parallel=12, tokens=3) as running:
        failed = site.apply(site.fleet(strategy="round_robin"), "--reload", "false")
        assert failed.returncode == 2
        assert "rolled back" in failed.stderr
        assert site.running()["gpu-1"].held == "drain"
        # The file is as it was, but lbgen cannot know what runs: the next apply reloads.
        assert site.apply(site.fleet()).returncode == 0
        assert site.running()["gpu-1"].held == "drain"

        heavy = site.fleet()
        heavy["pools"]["chat"]["servers"][1]["weight"] = 3
        plan = site.lbgen("plan", heavy, "--to", str(site.folder))
        assert "gpu-1, taken out at run time, stays drained" in plan.stdout
        assert "no reload needed" in plan.stdout
        done = site.apply(heavy, "--reload", "false")
        assert done.returncode == 0, done.stderr
        assert "gpu-1, taken out at run time, stays drained" in done.stderr
        assert site.running()["gpu-1"].held == "drain"
        assert begun_after(site.mocks[1], drained) == []
    assert running.lost == []


@on_one_queueing
def test_a_killed_apply_is_made_up_for_by_the_next(site: Runtime) -> None:
    fleet = site.fleet(strategy="round_robin")
    before = files_of(site)
    assert site.lbgen("drain", site.fleet(), "chat/gpu-1").returncode == 0
    drained = now()
    with Load(site, parallel=12, tokens=3) as running:
        killed = site.apply(fleet, "--reload", "sh -c 'kill -9 $PPID'")
        assert killed.returncode == -9
        assert "server-state-file" in (site.folder / "haproxy.cfg").read_text()
        assert site.running()["gpu-1"].held == "drain"

        done = site.apply(fleet)
        assert done.returncode == 0, done.stderr
        assert "in rotation for a moment" not in done.stderr
        assert site.lbgen("render", fleet, "-o", str(site.root), "--check").returncode == 0
        assert sorted(set(files_of(site)) - {".lbgen-backup", ".lbgen.lock"}) == before
        assert site.running()["gpu-1"].held == "drain"
        assert begun_after(site.mocks[1], drained) == []
    assert running.lost == []


@on_one_queueing
def test_where_the_state_file_is_out_of_reach_the_socket_must_do(site: Runtime) -> None:
    """The fleet names a state file of its own, so lbgen's cannot be named."""
    own = site.fleet()
    own["targets"]["haproxy"]["raw"] = {"global": [f"server-state-file {site.root}/own"]}
    (site.root / "own").write_text("1\n")
    assert site.lbgen("drain", site.fleet(), "chat/gpu-1").returncode == 0
    done = site.apply(own)
    assert done.returncode == 0, done.stderr
    assert "stays drained until 'lbgen undrain'; it was in rotation for a moment" in done.stderr
    assert site.running()["gpu-1"].held == "drain"
    assert "server-state-file" in (site.folder / "haproxy.cfg").read_text()
