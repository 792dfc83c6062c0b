"""A change of each kind in words, on both targets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.cli.guard import run

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
    # what changes: (words on NGINX, words on HAProxy)
    "pools.big.strategy=round_robin": ("least_conn → round robin", "leastconn → roundrobin"),
    "pools.big.timeouts.idle=30m": ("proxy_read_timeout 10m → 30m", "timeouts: timeout server 10m → 30m"),
    "pools.big.max_in_flight=32": ("gpu-7:8000 and 2 more: max_in_flight 64 → 32", "gpu-7 and 2 more: max"),
    "pools.big.keepalive.idle=10": ("pool big: connections: keepalive 64 → 10", "pool-max-conn 64 → 10"),
    "pools.big.retry={attempts: 2}": ("retries: proxy_next_upstream_tries 2 → 3", "retries: retries 1 → 2"),
    "pools.big.servers=gpu-[0-8]:8000": ("pool big: - gpu-9:8000", "pool big: - gpu-9"),
    "pools.big.servers=gpu-[0-11]:8000": ("big: + gpu-10:8000, gpu-11:8000", "big: + gpu-10, gpu-11"),
    "pools.small.servers[0]={address: gpu-20:8000, weight: 4}":
        ("pool small: gpu-20:8000 weight 1 → 4", "pool small: gpu-20 weight 1 → 4"),
    "pools.small.servers[0]={address: gpu-20:8000, state: down}":
        ("pool small: gpu-20:8000 state up → down", "pool small: gpu-20 state up → down"),
    NEW_POOL: ("pool third: new pool with 1 server", "pool third: new pool with 1 server"),
    NEW_LISTENER: ("listener inner: new 127.0.0.1:9000", "listener inner: new 127.0.0.1:9000"),
    ROUTES: ("listener public, /gpt: new", "listener public: routes: "),
    "listeners.public.bind=1.2.3.4:443": ("address 0.0.0.0:443 → 1.2", "address 0.0.0.0:443 → 1.2.3.4:443"),
    "listeners.public.tls.profile=modern": ("listener public: TLS: ", "listener public: TLS: "),
    "listeners.public.limits[0].rate=300/m": ("limits: limit_req_zone", "limits: stick-table"),
    "clients.team-b.keys=[file:KEYS/b]": ("client team-b: 1 key removed", "client team-b: 1 key removed"),
    "clients.team-c={key: file:KEYS/d}": ("client team-c: new", "client team-c: new"),
    "targets={nginx: {connections: 65536}, haproxy: {max_connections: 99999}}":
        ("file systemd/lbgen.conf: changed, for you to install", "file systemd/lbgen.conf: changed, for you"),
    "logs.level=error": ("global: logs: error_log stderr notice → error", "logs: log … local0 info → err"),
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
def test_every_kind_of_change_has_its_words(plan: Callable[..., str], target: str, change: str) -> None:
    said = plan("--set", change, "--exit-code", code=1)
    assert CASES[change][target == "haproxy"] in said, said
    assert "sk-secret" not in plan("--set", change, "--diff")


def test_no_change_has_no_words(plan: Callable[..., str], target: str) -> None:
    assert plan("--exit-code").startswith(f"{target}: no changes\ndigest ")


def test_json_for_programs(plan: Callable[..., str]) -> None:
    value = json.loads(plan("--set", "pools.big.servers=gpu-[0-5]:8000", "--format", "json"))
    assert value["losses"] == [{"pool": "big", "lost": 4, "had": 10}]
    assert {"pool": "big", "change": value["changes"][0]["change"], "reload": True} == value["changes"][0]
    assert value["reload"] is True
    assert value["empty"] is value["unfinished"] is False


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
    assert "taken as they are" in capsys.readouterr().err


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
