"""Draining a server of a running Envoy, with streams in flight, and what `status` tells of it."""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from integration.envoy_site import lbgen, lbgen_command, mocks, pool, program, running
from integration.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from integration.envoy_site import MockServer, Site

pytestmark = pytest.mark.usefixtures("envoy_version")


@pytest.fixture
def servers() -> Iterator[list[MockServer]]:
    with mocks(3) as made:
        yield made


@pytest.fixture
def site(tmp_path: Path, servers: list[MockServer]) -> Iterator[Site]:
    """An Envoy in front of three servers, with files that an apply has put there."""
    folder = tmp_path / "envoy"
    folder.mkdir()
    with running(fleet(servers), folder) as made:
        apply(made, fleet(servers))
        yield made


def fleet(servers: list[MockServer], **more: Any) -> dict[str, Any]:
    return {"pools": {"chat": pool(servers, **more)}}


def apply(site: Site, wanted: dict[str, Any], *words: str) -> str:
    done = lbgen(site, wanted, "apply", "--to", str(site.folder), "--binary", f"envoy={program()}", *words)
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


def asked(server: MockServer, site: Site) -> int:
    """Return how many of 12 requests go to a server."""
    before = len(server.seen)
    assert [site.ask("/v1/x").status for _ in range(12)] == [200] * 12
    return len(server.seen) - before


def test_streams_end_new_requests_go_elsewhere_and_drain_waits(site: Site, servers: list[MockServer]) -> None:
    for one in servers:
        one.pieces, one.gap_s = 100_000, 0.02
    with ExitStack() as streams:
        answers = [streams.enter_context(site.stream("/v1/chat/completions")) for _ in range(6)]
        for answer in answers:
            assert answer.read(8)
        eventually(lambda: servers[1].running > 0, 20, "the server has streams")
        for one in (servers[0], servers[2]):
            one.pieces = 1
        begun, there = len(servers[1].seen), servers[1].running
        called = lbgen_command(site, fleet(servers), "drain", "chat/s1", "--timeout", "120s")
        with subprocess.Popen(called, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            first = next(line for line in process.stderr if "in flight" in line)
            assert f"{there} request" in first
            assert [site.ask("/v1/x").status for _ in range(20)] == [200] * 20
            assert len(servers[1].seen) == begun, "no new request"
            assert process.poll() is None, "it waits for the streams"
            assert servers[1].running == there
            servers[1].pieces = 1  # the streams end
            out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert "chat/s1: drained, no request in flight" in out
        assert not servers[1].aborted.is_set()

    # Through a status, a plan and applies: of the same fleet, and of a changed one.
    done = lbgen(site, fleet(servers), "status", "--format", "json", "--exit-code")
    assert done.returncode == 1, done.stderr
    [balancer] = json.loads(done.stdout)["balancers"]
    [chat] = balancer["pools"]
    assert [one["state"] for one in chat["servers"]] == ["up", "drain", "up"]
    assert chat["differences"] == [{"server": "s1", "difference": "was drained at run time"}]
    plan = lbgen(site, fleet(servers), "plan", "--to", str(site.folder))
    assert "no changes" in plan.stdout
    assert "s1, taken out at run time, stays drained until 'lbgen undrain'" in plan.stdout
    assert "no changes" in apply(site, fleet(servers))
    weighted = fleet(servers)
    weighted["pools"]["chat"]["servers"][2]["weight"] = 2
    assert "s1, taken out at run time, stays drained" in apply(site, weighted)
    eventually(lambda: '"weight": 2' in site.admin_text("/clusters?format=json"), 20, "the new file is used")
    assert asked(servers[1], site) == 0

    back = lbgen(site, weighted, "undrain", "chat/s1")
    assert back.returncode == 0, back.stderr
    assert "chat/s1: back in rotation" in back.stdout
    eventually(lambda: asked(servers[1], site) > 0, 20, "it gets requests again")
    again = lbgen(site, weighted, "plan", "--to", str(site.folder), "--exit-code")
    assert again.returncode == 0, again.stdout


def test_when_the_time_is_over_it_stays_drained(site: Site, servers: list[MockServer]) -> None:
    for one in servers:
        one.pieces, one.gap_s = 100_000, 0.02
    with ExitStack() as streams:
        for _ in range(6):
            streams.enter_context(site.stream("/v1/x"))
        eventually(lambda: servers[0].running > 0, 20, "the server has streams")
        done = lbgen(site, fleet(servers), "drain", "chat/s0", "--timeout", "1s", "--format", "json")
        assert done.returncode == 2
        assert "in flight after 1 s; it stays drained" in done.stderr
        assert json.loads(done.stdout)["in_flight"] == servers[0].running
        for one in servers:
            one.pieces = 1
    assert asked(servers[0], site) == 0


def test_status_tells_health_ejections_and_what_is_in_flight(site: Site, servers: list[MockServer]) -> None:
    servers[2].health = 500
    servers[0].pieces, servers[0].gap_s = 100_000, 0.02
    wanted = fleet(servers)
    wanted["pools"]["chat"]["servers"][1]["state"] = "drain"
    apply(site, wanted, "--max-change", "100%")
    with site.stream("/v1/x"):
        eventually(lambda: "down" in status(site, wanted), 30, "the check fails")
        lines = {line.split()[0]: line.split() for line in status(site, wanted).splitlines() if line.strip()}
    assert lines["s0"][1:4] == ["up", "1", "1"]
    assert lines["s1"][1] == "drained"
    assert lines["s2"][1] == "down"
    assert lines["s2"][-1] == "failed"
    assert "at run time" not in status(site, wanted), "the fleet says it itself"


def status(site: Site, wanted: dict[str, Any]) -> str:
    done = lbgen(site, wanted, "status")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_ejected_server_is_told(tmp_path: Path, servers: list[MockServer]) -> None:
    wanted = fleet(servers, health=False, passive_health={"failures": 1, "eject": "60s"})
    servers[0].close()
    with running(wanted, tmp_path / "envoy") as site:
        eventually(
            lambda: site.ask("/v1/x").status == 200 and "ejected" in status(site, wanted), 60, "ejected"
        )
        assert "1 ejections" in status(site, wanted)


def test_what_cannot_be_drained_says_what_to_do(site: Site, servers: list[MockServer]) -> None:
    by_name = fleet(servers)
    by_name["pools"]["chat"]["servers"] = [{"address": f"localhost:{servers[0].port}", "name": "s0"}]
    done = lbgen(site, by_name, "drain", "chat/s0")
    assert done.returncode == 2
    assert "are names, which Envoy looks up in clusters.yaml" in done.stderr
    (site.folder / "endpoints" / "chat.yaml").unlink()
    done = lbgen(site, fleet(servers), "drain", "chat/s0")
    assert done.returncode == 2
    assert "apply the fleet first" in done.stderr
    assert site.process is not None
    site.process.kill()
    site.process.wait()
    done = lbgen(site, fleet(servers), "status")
    assert done.returncode == 2
    assert "no answer from Envoy" in done.stderr
