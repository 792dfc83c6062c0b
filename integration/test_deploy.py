"""From one fleet to the next on a running balancer, under load: nobody notices, and what is bad goes back."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from integration.deploy_site import MAIN, ROOT, Load, Site, balancer
from integration.fleets import on_one_each
from integration.waiting import eventually
from lbgen.checker.certificate import throwaway_bundle
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from integration.fleets import Proxy

pytestmark = pytest.mark.slow

RAW = {"nginx": {"http": ["no_such_directive on;"]}, "haproxy": {"global": ["no-such-keyword"]}}
SMOKE = ("--smoke", "/v1/chat/completions")


@pytest.fixture
def site(proxy: Proxy, mocks: list[Any], tmp_path: Path) -> Iterator[Site]:
    """A balancer that runs the first version of a fleet."""
    servers = tuple(f"{mock.address}:8000" for mock in mocks)
    made = Site(proxy, tmp_path, free_port(), servers, f"lbgen-deploy-{uuid.uuid4().hex[:8]}")
    done = subprocess.run(
        [sys.executable, "-m", "lbgen", "render", made.write(made.fleet()), "-o", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with balancer(made):
        eventually(made.answers, 30, "the balancer answers")
        yield made


def test_from_fleet_to_fleet_under_load(site: Site) -> None:
    v1, v2 = site.fleet(), site.fleet(strategy="round_robin", servers=list(site.servers[:3]))
    broken = site.fleet() | {
        "targets": {site.proxy.target: {"version": site.proxy.version, "raw": RAW[site.proxy.target]}}
    }
    v4 = site.fleet(strategy="random_two")
    with Load(site) as running:
        plan = site.lbgen("plan", v2, "--format", "json")
        digest = json.loads(plan.stdout)["digest"]
        done = site.apply(v2, "--expect", digest, *SMOKE)
        assert done.returncode == 0, done.stderr
        assert re.search(r"smoke request to \S+: a stream of \d+ events, the first after", done.stderr)
        second, answer = site.main.read_bytes(), site.runs()

        refused = site.apply(broken)
        assert refused.returncode == 1, refused.stderr
        assert "refuses the new files" in refused.stderr
        assert site.main.read_bytes() == second

        for bad in (("--reload", "false"), ("--smoke", "/v1/nowhere")):
            failed = site.apply(v4, *bad)
            assert failed.returncode == 2, failed.stderr
            assert "rolled back: the old files are restored" in failed.stderr
            end = "reloading them failed as well" if bad[1] == "false" else "restored, and run"
            assert end in failed.stderr
            assert site.main.read_bytes() == second
        eventually(lambda: site.runs() == answer, 30, "the old configuration runs again")

        assert site.apply(v1).returncode == 0
        assert site.apply(v2).returncode == 0
        assert site.main.read_bytes() == second
        assert site.runs() == answer
    assert not running.failed


def test_what_passes_the_check_and_does_not_start_goes_back(site: Site) -> None:
    before, answer = site.main.read_bytes(), site.runs()
    with socket.socket() as taken, Load(site) as running:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        fleet = site.fleet()
        listener = {"bind": f"127.0.0.1:{taken.getsockname()[1]}"}
        fleet["listeners"]["second"] = listener
        failed = site.apply(fleet, "--timeout", "4s")
        assert failed.returncode == 2, failed.stderr
        assert "does the balancer run with these files?" in failed.stderr
        assert site.main.read_bytes() == before
        assert site.runs() == answer
        assert site.apply(site.fleet(strategy="round_robin")).returncode == 0, "reloads work again"
    # HAProxy (2.6 to 3.2) stops listening with the old process while it tries for 2 s to bind. That is why
    # apply looks for taken addresses first, where it checks with a program here and not, as now, in an image.
    refused = [(None, "ClientConnectorError")] if site.proxy.target == "haproxy" else []
    assert [one for one in running.failed if one not in refused] == []


@on_one_each
def test_servers_that_nobody_reaches_go_back(site: Site) -> None:
    """NGINX's ready probe asks a server; HAProxy takes new servers for living until their first check."""
    before, nowhere = site.main.read_bytes(), [f"127.0.0.1:{free_port()}"]
    smoke = () if site.proxy.target == "nginx" else SMOKE
    done = site.apply(site.fleet(servers=nowhere), "--max-change", "100%", "--timeout", "4s", *smoke)
    assert done.returncode == 2, done.stderr
    assert re.search("was ready before" if not smoke else "was ready before|smoke request to", done.stderr)
    assert site.main.read_bytes() == before


def unit_reload(site: Site) -> str:
    """Return what `systemctl reload` runs, ExecReload of Debian's units: it ends before the reload does."""
    if site.proxy.target == "nginx":
        return f"docker exec {site.name} nginx -g 'pid {site.run}/pid;' -s reload"
    check = "haproxy -Ws -f /etc/haproxy/haproxy.cfg -c -q"
    return f"docker exec {site.name} sh -c '{check} && kill -USR2 $(cat {site.run}/pid)'"


def test_each_way_to_reload(site: Site) -> None:
    ways = [("--pid", f"{site.run}/pid"), ("--reload", unit_reload(site))]
    if site.proxy.target == "haproxy":
        ways.append(("--master-socket", f"{site.run}/master.sock"))
    with Load(site) as running:
        for number, way in enumerate(ways):
            done = site.apply(site.fleet(strategy=("round_robin", "least_conn")[number % 2]), *way)
            assert done.returncode == 0, done.stderr
            assert "answers with the new configuration and is ready" in done.stderr
    assert not running.failed


def test_a_changed_key_is_seen_to_run(site: Site) -> None:
    """Only a side file changes, and still the old workers are told from the new ones."""
    fleet = site.fleet()
    (site.root / "key").write_text("sk-before\n")
    fleet["clients"] = {"team-a": {"key": f"file:{site.root}/key"}}
    fleet["listeners"]["public"]["auth"] = {"clients": "all"}
    assert site.apply(fleet, *SMOKE).returncode == 0
    answer = site.runs()
    (site.root / "key").write_text("sk-after\n")
    done = site.apply(fleet, *SMOKE)
    assert done.returncode == 0, done.stderr
    assert "client team-a: keys: the value behind the reference changed" in done.stdout
    assert site.runs() != answer
    assert "sk-" not in done.stdout + done.stderr


@on_one_each
def test_through_tls_and_by_name(site: Site) -> None:
    (site.folder / "site.pem").write_text(throwaway_bundle("llm.example.org"))
    fleet = site.fleet()
    listener = {"hosts": ["*.example.org"], "tls": {"bundle": "site.pem"}}
    fleet["listeners"]["public"] |= listener
    done = site.apply(fleet, *SMOKE)
    assert done.returncode == 0, done.stderr
    assert "answers with the new configuration" in done.stderr
    assert "a stream of" in done.stderr


@on_one_each
def test_what_is_refused_touches_nothing(site: Site) -> None:
    before = site.main.read_bytes()
    emptied = site.apply(site.fleet(servers=list(site.servers[:1])))
    assert emptied.returncode == 1
    assert "would lose 3 of 4 servers" in emptied.stderr
    stale = site.apply(site.fleet(strategy="round_robin"), "--expect", "0" * 16)
    assert stale.returncode == 1
    assert site.main.read_bytes() == before

    site.main.write_text("# by hand\n")
    foreign = site.apply(site.fleet(strategy="round_robin"))
    assert foreign.returncode == 1
    assert "not written by lbgen" in foreign.stderr
    assert site.main.read_text() == "# by hand\n"


@on_one_each
def test_an_edit_by_hand_since_the_plan_is_refused_and_shown(site: Site) -> None:
    wanted = site.fleet(strategy="round_robin")
    digest = json.loads(site.lbgen("plan", wanted, "--format", "json").stdout)["digest"]
    site.main.write_text(site.main.read_text() + "# by another hand\n")
    refused = site.apply(wanted, "--expect", digest)
    assert refused.returncode == 1
    assert "-# by another hand" in refused.stderr
    assert site.main.read_text().endswith("# by another hand\n")


@on_one_each
def test_nothing_to_do_reloads_nothing(site: Site) -> None:
    done = site.apply(site.fleet(), "--reload", "false")
    assert done.returncode == 0, done.stderr
    assert "no changes" in done.stdout


@on_one_each
def test_files_that_lie_there_and_do_not_run_are_loaded(site: Site) -> None:
    wanted = site.fleet(strategy="round_robin")
    subprocess.run(
        [sys.executable, "-m", "lbgen", "render", site.write(wanted), "-o", str(site.root)],
        cwd=ROOT,
        check=True,
    )
    done = site.apply(wanted)
    assert done.returncode == 0, done.stderr
    assert "the balancer runs with older ones" in done.stderr
    assert "answers with the new configuration" in done.stderr


@on_one_each
def test_killed_on_the_way_and_taken_up(site: Site) -> None:
    """Kills apply where the state changes; every single act is tried without a balancer in tests/deploy."""
    old, new = site.fleet(), site.fleet(strategy="round_robin")
    command = [sys.executable, "-m", "tests.deploy.stopper", site.write(old, "old"), str(site.root / "warm")]
    with Load(site) as running, subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as stopper:  # fmt: skip

        def apply(name: str, at: int = 0) -> dict[str, Any]:
            arguments = [
                "apply", str(site.root / f"{name}.yaml"), "--to", str(site.folder), "--binary", "none",
                "--reload", site.reload,
            ]  # fmt: skip
            assert stopper.stdin
            assert stopper.stdout
            order = {"arguments": arguments, "at": at, "signal": signal.SIGKILL}
            stopper.stdin.write(json.dumps(order) + "\n")
            stopper.stdin.flush()
            ended: dict[str, Any] = json.loads(stopper.stdout.readline())
            return ended

        site.write(new, "new")
        acts = apply("new")["acts"]
        texts = {"new": site.main.read_bytes()}
        assert apply("old")["status"] == 0
        texts["old"] = site.main.read_bytes()
        for act in _turning_points(site, acts):
            name = "new" if site.main.read_bytes() == texts["old"] else "old"
            assert apply(name, act)["status"] == -signal.SIGKILL, acts[act - 1]
            assert site.main.read_bytes() in texts.values(), acts[act - 1]
            assert apply(name)["status"] == 0, acts[act - 1]
            assert site.main.read_bytes() == texts[name], acts[act - 1]
            named = re.search(rb'"files": "\w+"', texts[name])
            assert named
            assert named[0].decode() in site.runs(), acts[act - 1]
            assert not list(site.folder.glob(".lbgen-new-*"))
            assert not (site.folder / ".lbgen-candidate").exists()
        stopper.stdin.close()  # type: ignore[union-attr]
    assert not running.failed


def _turning_points(site: Site, acts: list[str]) -> list[int]:
    """Return, from 1, the acts before which it is killed: main file, reload, first probe, end."""
    main = MAIN[site.proxy.target]
    wanted = (rf"open \.lbgen-new-{main}", rf"os.rename \.lbgen-new-{main}", r"subprocess\.Popen docker",
              r"socket\.connect", r"os\.remove unfinished")  # fmt: skip
    found = [[at for at, act in enumerate(acts, 1) if re.match(pattern, act)] for pattern in wanted]
    assert all(found), acts
    return [places[-1] for places in found]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@on_one_each
def test_owner_and_mode_are_kept(site: Site) -> None:
    os.chown(site.main, 12_345, 23_456)
    site.main.chmod(0o640)
    site.folder.chmod(0o755)
    assert site.apply(site.fleet(strategy="round_robin"), "--reload", "false").returncode == 2
    for step in ("rolled back", "replaced"):
        status = site.main.stat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (12_345, 23_456, 0o640), step
        assert site.lbgen("apply", site.fleet(strategy="round_robin"), "--binary", "none").returncode == 0


@on_one_each
def test_the_second_apply_waits_and_says_so(site: Site) -> None:
    slow = f"sh -c 'sleep 3; {site.reload}'"
    command = [sys.executable, "-m", "lbgen", "apply", "--to", str(site.folder), "--binary", "none"]
    first = subprocess.Popen(
        [*command, site.write(site.fleet(strategy="round_robin"), "first"), "--reload", slow], cwd=ROOT,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert first.stderr
    assert "not checked" in first.stderr.readline()
    second = subprocess.run(
        [*command, site.write(site.fleet(strategy="random_two"), "second"), "--reload", site.reload],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = first.communicate()[1]
    assert first.returncode == 0, said
    assert second.returncode == 0, second.stderr
    assert "another apply is running here: waiting for it" in second.stderr
