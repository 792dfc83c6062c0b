"""A change of each kind in words, on both targets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.cli.guard import run
from lbgen.deploy.planning.plan import make_plan
from lbgen.deploy.runtime.inventory_diff import file_changes
from lbgen.render import FLEET_FILE, RenderedFile
from lbgen.targets.common.service import DROP_IN
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable

FLEET = """
pools:
  big:
    engine: vllm
    models: [big]
    servers: "gpu-[0-9]:8000"
    max_in_flight: 64
  small: {engine: vllm, models: [small], servers: ["gpu-20:8000", "gpu-21:8000"]}
listeners:
  public:
    bind: 0.0.0.0:443
    tls: {bundle: /etc/ssl/site.pem}
    auth: {clients: all}
    limits: [{rate: 600/m, burst: 50, per: client}]
    routes: [{path: /v1/small, pool: small}, {pool: big}]
clients:
  team-a: {key: "file:KEYS/a"}
  team-b: {keys: ["file:KEYS/b", "file:KEYS/c"]}
targets:
  nginx: {version: "1.26"}
  haproxy: {version: "3.0"}
"""
NEW_LISTENER = 'listeners.inner={bind: "127.0.0.1:9000", auth: none, routes: [{pool: big}]}'
NEW_POOL = 'pools.third={engine: vllm, standby: true, servers: ["gpu-30:8000"]}'
ROUTES = "listeners.public.routes=[{path: /v1/small, pool: small}, {path: /gpt, pool: small}, {pool: big}]"
CASES = {
    # what changes: the words, the same on both targets
    "pools.big.strategy=round_robin": "pool big: strategy least_conn → round_robin",
    "pools.big.strategy={name: session, header: X-A}": "pool big: strategy least_conn → session",
    "pools.big.timeouts.idle=30m": "pool big: timeouts.idle 10m → 30m",
    "pools.big.max_in_flight=32": "pool big: max_in_flight 64 → 32",
    "pools.big.queue.size=256": "pool big: queue.size 512 → 256",
    "pools.big.keepalive.idle=10": "pool big: keepalive.idle 64 → 10",
    "pools.big.retry={attempts: 2}": "pool big: retry.attempts 1 → 2",
    "pools.big.servers=gpu-[0-8]:8000": "pool big: - gpu-9",
    "pools.big.servers=gpu-[0-11]:8000": "pool big: + gpu-10, gpu-11",
    "pools.big.servers=gpu-[0-7]:8001":
        "pool big: gpu-0: address gpu-0:8000 → gpu-0:8001",
    "pools.small.servers[0]={address: gpu-20:8000, weight: 4}": "pool small: gpu-20: weight 1 → 4",
    "pools.small.servers[0]={address: gpu-20:8000, state: down}": "pool small: gpu-20: state up → down",
    NEW_POOL: "pool third: new pool with 1 server",
    NEW_LISTENER: 'listener inner: new, on ["127.0.0.1:9000"]',
    ROUTES: "listener public: + routes.",
    "listeners.public.bind=1.2.3.4:443": 'listener public: bind ["0.0.0.0:443"] → ["1.2.3.4:443"]',
    "listeners.public.tls.profile=modern": "listener public: tls.profile intermediate → modern",
    "listeners.public.limits[0].rate=300/m": 'listener public: limits [{rate: "600/m"',
    "clients.team-b.keys=[file:KEYS/b]": "client team-b: ",
    "clients.team-c={key: file:KEYS/d}": "client team-c: new",
    "targets={nginx: {connections: 65536}, haproxy: {max_connections: 99999}}":
        "file systemd/lbgen.conf: changed; install it yourself, see its first lines",
    "logs.level=error": "logs.level info → error",
}  # fmt: skip


@pytest.fixture(params=["nginx", "haproxy"])
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def plan(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Render the fleet once; then say what a change of it would be."""
    for name in "abcd":
        (tmp_path / name).write_text(f"sk-secret-{name}\n")
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET.replace("KEYS", str(tmp_path)))
    assert run(["-q", "render", str(fleet), "-t", target, "-o", str(tmp_path / "out")]) == 0

    def planned(*options: str, code: int = 0) -> str:
        given = [option.replace("KEYS", str(tmp_path)) for option in options]
        assert (
            run(["-q", "plan", str(fleet), "-t", target, "--to", str(tmp_path / "out" / target), *given])
            == code
        )
        return capsys.readouterr().out

    return planned


@pytest.mark.parametrize("change", CASES)
def test_every_kind_of_change_has_its_words(plan: Callable[..., str], change: str) -> None:
    said = plan("--set", change, "--exit-code", code=1)
    assert CASES[change] in said, said
    assert "sk-secret" not in plan("--set", change, "--diff")


def test_no_change_has_no_words(plan: Callable[..., str], target: str) -> None:
    assert plan("--exit-code").startswith(f"{target}: no changes\ndigest ")


def test_json_for_programs(plan: Callable[..., str], target: str) -> None:
    value = json.loads(plan("--set", "pools.big.servers=gpu-[0-5]:8000", "--format", "json"))
    assert value["losses"] == [{"pool": "big", "lost": 4, "had": 10}]
    assert value["changes"][0] == {
        "kind": "removed", "pool": "big", "server": "gpu-6", "listener": None, "attribute": None,
        "before": "gpu-6:8000", "after": None, "effect": "reload", "summary": "pool big: - gpu-6",
    }  # fmt: skip
    assert len(value["changes"]) == 4
    assert value["reload"] is True
    assert value["empty"] is value["unfinished"] is False
    (one,) = json.loads(plan("--set", "pools.big.queue.size=256", "--format", "json"))["changes"]
    assert (one["pool"], one["attribute"], one["before"], one["after"]) == ("big", "queue.size", 512, 256)
    assert one["effect"] == ("none" if target == "nginx" else "reload"), "NGINX has no queue"


def main_file(tmp_path: Path, target: str) -> Path:
    return tmp_path / "out" / target / ("nginx.conf" if target == "nginx" else "haproxy.cfg")


def test_an_edit_by_hand_is_told_apart_from_the_fleets_change(
    plan: Callable[..., str], target: str, tmp_path: Path
) -> None:
    main = main_file(tmp_path, target)
    text = main.read_text()
    assert text.count("10m") > 1
    main.write_text(text.replace("10m", "11m"))
    said = plan("--set", "pools.big.queue.size=256")
    assert "pool big: queue.size 512 → 256" in said
    assert f"{main.name} differed from what this version of lbgen renders for the fleet beside it: " in said
    assert "timeouts" not in said, "the fleet's own timeouts did not change"


def test_without_the_fleet_beside_them_the_files_are_compared(
    plan: Callable[..., str], target: str, tmp_path: Path
) -> None:
    (tmp_path / "out" / target / "lbgen-fleet.yaml").unlink()
    said = plan("--set", "pools.big.servers=gpu-[0-8]:8000", "--set", "pools.big.strategy=round_robin")
    assert "pool big: - gpu-9" in said
    assert f"pool big: strategy {'least_conn → round robin' if target == 'nginx' else 'leastconn'}" in said


@pytest.mark.parametrize("text", ["", "pools: {", "pools: {a: {servers: []}}\nnonsense: 1\n", "\0", "[1]"])
def test_a_spoilt_fleet_beside_them_is_no_fleet(
    plan: Callable[..., str], target: str, tmp_path: Path, text: str
) -> None:
    (tmp_path / "out" / target / "lbgen-fleet.yaml").write_text(f"# Generated by lbgen\n{text}")
    assert "pool big: - gpu-9" in plan("--set", "pools.big.servers=gpu-[0-8]:8000")


def test_another_value_of_a_key_is_told_without_it(
    plan: Callable[..., str], target: str, tmp_path: Path
) -> None:
    (tmp_path / "b").write_text("sk-rotated\n")
    said = plan("--exit-code", code=1)
    assert "client team-b: keys: the value behind the reference changed" in said
    assert f"{target}: 1 change, a reload" in said


def test_the_fleet_beside_the_files_is_the_fleet(
    plan: Callable[..., str], target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan()
    beside = tmp_path / "out" / target / "lbgen-fleet.yaml"
    assert "sk-secret" not in beside.read_text()
    assert run(["-q", "plan", str(beside), "-t", target, "--to", str(beside.parent)]) == 0
    assert capsys.readouterr().out.startswith(f"{target}: no change in effect"), "but for its digest"


def test_markdown_for_a_pull_request(plan: Callable[..., str]) -> None:
    said = plan("--set", "pools.big.servers=gpu-[0-5]:8000", "--format", "markdown", "--diff")
    assert "\n| pool big: - gpu-6" in said
    assert "> **Large:** pool big loses 4 of 10 servers at once: apply needs --max-change 40%" in said
    assert "<details>" in said
    assert said.count("````") == 2
    said = plan("--set", "pools.big.strategy={name: session, header: X-A}", "--format", "markdown")
    row = next(line for line in said.splitlines() if "strategy" in line)
    assert row.count("|") == 3, "nothing in a cell ends it"
    assert "_" not in row, "nothing in a cell is markup"


def test_keys_that_are_not_here_are_taken_as_they_are(
    plan: Callable[..., str], target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_keys = plan("--set", "pools.big.timeouts.idle=30m")
    for name in "abc":
        (tmp_path / name).unlink()
    assert plan("--set", "pools.big.timeouts.idle=30m") == with_keys, "the same digest, too"
    assert plan("--exit-code").startswith(f"{target}: no changes")
    assert (
        run(["render", str(tmp_path / "fleet.yaml"), "-t", target, "-o", str(tmp_path / "out"), "--check"])
        == 0
    )
    assert "assumed to be up to date" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "after"), [("", "--target-version=1.30"), ("a", "sk-other"), ("c", "sk-another")], ids=str
)
def test_the_digest_is_another_for(
    tmp_path: Path, before: str, after: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "abcd":
        (tmp_path / name).write_text(f"sk-secret-{name}\n")
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET.replace("KEYS", str(tmp_path)))
    arguments = ["-q", "plan", str(fleet), "-t", "nginx", "--to", str(tmp_path / "out")]
    assert run(arguments) == 0
    first = capsys.readouterr().out.split()[-1]
    if before:
        (tmp_path / before).write_text(f"{after}\n")
    assert run(arguments if before else [*arguments, after]) == 0
    assert capsys.readouterr().out.split()[-1] != first


def test_another_version_than_the_fleets_is_said(tmp_path: Path) -> None:
    program = tmp_path / "nginx"
    program.write_text("#!/bin/sh\necho nginx version: nginx/1.22.1\n")
    program.chmod(0o755)
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("pools: {chat: {engine: vllm, servers: [gpu-0:8000]}}\n")
    said = [
        subprocess.run(
            [sys.executable, "-m", "lbgen", "plan", str(fleet), "-t", "nginx", "--to", str(tmp_path),
             "--binary", f"nginx={program}", "--target-version", version],
            capture_output=True, text=True, check=True,
        ).stderr
        for version in ("1.26", "1.22")
    ]  # fmt: skip
    assert "nginx here is 1.22.1, but the fleet is for 1.26" in said[0]
    assert "but the fleet is for" not in said[1]


def test_what_no_fleet_explains_is_reloaded_all_the_same(tmp_path: Path) -> None:
    """Whether a reload is needed follows from the files, also where nothing renders the old fleet again."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("pools: {chat: {engine: vllm, servers: [gpu-0:8000, gpu-1:8000]}}\n")
    assert run(["-q", "render", str(fleet), "-t", "haproxy", "-o", str(tmp_path)]) == 0
    folder = tmp_path / "haproxy"
    names = ("haproxy.cfg", DROP_IN, FLEET_FILE)
    files = [RenderedFile(name, (folder / name).read_text()) for name in names]
    main = folder / "haproxy.cfg"
    main.write_text(main.read_text().replace("timeout queue 1m", "timeout queue 2m"))
    plan = make_plan("haproxy", folder, files, socket=True)
    assert plan.reload
    assert [change.attribute for change in plan.changes] == ["files.haproxy.cfg"]


def test_a_change_that_needs_a_reload_elsewhere_is_no_edit_by_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server of a pool with affinity takes a place in its table, which no runtime socket can make."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(
        "pools: {chat: {servers: ['127.0.0.1:[8000-8001]'], strategy: prefix}}\n"
        "targets: {haproxy: {runtime_socket: /run/haproxy/lbgen.sock}}\n"
    )
    words = [str(fleet), "-t", "haproxy"]
    assert run(["-q", "render", *words, "-o", str(tmp_path)]) == 0
    more = ["--set", "pools.chat.servers=127.0.0.1:[8000-8002]"]
    assert run(["-q", "plan", *words, *more, "--to", str(tmp_path / "haproxy")]) == 0
    out = capsys.readouterr().out
    assert "1 change, a reload" in out
    assert "pool chat: + 127.0.0.1-8002 at 127.0.0.1:8002 (reload)" in out
    assert "differed from what" not in out


def test_what_had_no_parameters_is_told_as_none() -> None:
    old, new = (
        TARGETS["nginx"].read(f"upstream chat {{\n    server 10.0.0.1:80{words};\n}}\n")
        for words in ("", " max_fails=0")
    )
    [change] = file_changes(old, new, socket=False)
    assert (change.attribute, change.before, change.after) == ("parameters", None, "max_fails=0")
