from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.deploy.fake_haproxy import FakeHaproxy, Server
from tests.ports import free_port


def fleet(tmp_path: Path, targets: dict[str, object] | None = None, **pool: object) -> Path:
    path = tmp_path / "fleet.yaml"
    servers = ["gpu-[0-2]:8000", "big:8000", {"address": "named:8000", "name": "n"}]
    document = {"pools": {"chat": {"servers": servers, **pool}}, "targets": targets or {"haproxy": {}}}
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("chat/gpu-9", "pool chat has no server 'gpu-9': did you mean gpu-"),
        ("chad/gpu-0", "'chad' is not a pool of this fleet: did you mean chat?"),
        ("gpu-0", "write POOL/SERVER, such as chat/gpu-0"),
    ],
)
@pytest.mark.parametrize("command", ["drain", "undrain"])
def test_unknown_names(lbgen, tmp_path, command, which, said):
    ended = lbgen(command, fleet(tmp_path), which, "--socket", tmp_path / "s")
    assert ended.code == 2
    assert said in ended.err


@pytest.mark.parametrize(
    ("which", "edit"),
    [
        ("chat/n", "--set 'pools.chat.servers[2].state=drain'"),
        ("chat/big", "--set 'pools.chat.servers[1]={address: \"big:8000\", state: drain}'"),
        ("chat/gpu-1", '  - {address: "gpu-1:8000", state: drain}\n  - "gpu-0:8000"\n  - "gpu-2:8000"\n'),
    ],
)
def test_nginx_is_told_with_an_edit_that_does_it(lbgen, tmp_path, which, edit):
    path = fleet(tmp_path, {"nginx": {}})
    ended = lbgen("drain", path, which)
    assert ended.code == 2
    assert "NGINX has no runtime socket" in ended.err
    assert edit in ended.err
    if edit.startswith("--set"):
        shown = lbgen(
            "show", path, "--format", "json", "--set", edit.removeprefix("--set '").removesuffix("'")
        )
        servers = {
            server["name"]: server for server in json.loads(shown.out)["fleet"]["pools"]["chat"]["servers"]
        }
        assert servers[which.removeprefix("chat/")]["state"] == "drain"


def test_without_a_socket_both_ways_are_named(lbgen, tmp_path):
    ended = lbgen("drain", fleet(tmp_path), "chat/n")
    assert ended.code == 2
    assert "name it with --socket, or write targets.haproxy.runtime_socket" in ended.err


def test_json_and_the_text(lbgen, tmp_path):
    with FakeHaproxy(tmp_path / "s", n=Server(in_flight=1)) as one:
        path = fleet(tmp_path, {"haproxy": {"runtime_socket": str(one.path)}})
        ended = lbgen("drain", path, "chat/n")
        assert ended.code == 0, ended.err
        assert ended.out.startswith("chat/n: drained, no request in flight after ")
        assert "warning[" not in ended.err, "those are for check"
        ended = lbgen("drain", path, "chat/n", "--format", "json")
        value = json.loads(ended.out)
        assert (value["pool"], value["server"], value["drained"], value["in_flight"]) == (
            "chat",
            "n",
            True,
            0,
        )
        assert value["balancers"] == [
            {"socket": str(one.path), "in_flight": 0, "uptime_s": 61, "error": None}
        ]
        assert "reloaded 61 s ago" in ended.err
        assert "no other server of chat is up: the pool cannot serve requests now" in ended.err
        ended = lbgen("undrain", path, "chat/n", "--format", "json")
        [balancer] = json.loads(ended.out)["balancers"]
        assert balancer["status"] == "UP"


def test_another_server_that_is_up_goes_on_serving(lbgen, tmp_path):
    with FakeHaproxy(tmp_path / "s", n=Server(), other=Server()) as one:
        ended = lbgen("drain", fleet(tmp_path, {"haproxy": {"runtime_socket": str(one.path)}}), "chat/n")
    assert ended.code == 0, ended.err
    assert "cannot serve requests" not in ended.err


@pytest.mark.parametrize("state", ["down", "drain"])
def test_what_the_fleet_takes_out_cannot_be_put_back(lbgen, tmp_path, state):
    path = fleet(tmp_path, servers=["gpu-0:8000", {"address": "named:8000", "name": "n", "state": state}])
    ended = lbgen("undrain", path, "chat/n", "--socket", tmp_path / "s")
    assert ended.code == 2
    assert f"the fleet file has state: {state}" in ended.err
    assert "--set 'pools.chat.servers[1].state=up'" in ended.err


@pytest.mark.parametrize(("option", "text"), [("--timeout", "soon"), ("--timeout", "-1s")])
def test_bad_times(lbgen, tmp_path, option, text):
    ended = lbgen("drain", fleet(tmp_path), "chat/n", "--socket", tmp_path / "s", option, text)
    assert ended.code == 2
    assert option in ended.err


def test_status_wants_something_to_ask(lbgen, tmp_path):
    ended = lbgen("status", fleet(tmp_path))
    assert ended.code == 2
    assert "no source of status" in ended.err


def test_status_of_nginx_takes_no_socket(lbgen, tmp_path):
    ended = lbgen("status", fleet(tmp_path), "-t", "nginx", "--socket", tmp_path / "s")
    assert ended.code == 2
    assert "--socket is only for HAProxy" in ended.err


def test_status_exit_codes(lbgen, tmp_path):
    names = {name: Server() for name in ("gpu-0", "gpu-1", "gpu-2", "big", "n")}
    with FakeHaproxy(tmp_path / "s", **names) as one:
        path = fleet(tmp_path, {"haproxy": {"runtime_socket": str(one.path)}})
        assert lbgen("status", path, "--exit-code").code == 0
        one.servers["n"].weight = 7
        assert lbgen("status", path).code == 0
        ended = lbgen("status", path, "--exit-code")
        assert ended.code == 1
        value = json.loads(lbgen("status", path, "--format", "json").out)
        assert [one["target"] for one in value["balancers"]] == ["haproxy"]
    ended = lbgen("status", path)
    assert ended.code == 2
    assert "no answer on the runtime socket" in ended.err


def test_status_of_one_target_of_several_that_runs(lbgen, tmp_path):
    names = {name: Server() for name in ("gpu-0", "gpu-1", "gpu-2", "big", "n")}
    silent = ["--set", f"metrics.bind=127.0.0.1:{free_port()}"]
    with FakeHaproxy(tmp_path / "s", **names) as one:
        path = fleet(tmp_path, {"haproxy": {"runtime_socket": str(one.path)}, "nginx": {}})
        ended = lbgen("status", path, *silent)
        assert ended.code == 0, ended.err
        assert ended.out.startswith("haproxy 3.0.11 at ")
        assert "nginx is not running here (" in ended.err
        socket = ("--socket", one.path)
        for words in (["-t", "nginx", "-t", "haproxy"], [*socket, "--socket", tmp_path / "none"]):
            assert lbgen("status", path, *silent, *words).code == 2
        assert lbgen("status", path, *silent, *socket).code == 0
    ended = lbgen("status", path, *silent)
    assert ended.code == 2
    assert ended.err.count("lbgen: error:") == 2


def on_a_terminal(stream: str, *words: str, stop_after: bytes = b"") -> tuple[int, bytes]:
    """Run lbgen with one stream on a terminal; return its exit code and what came there."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "lbgen", *words]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | {stream: theirs}
    with subprocess.Popen(command, **pipes) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # Linux says so at the end
                break
            seen += piece
            if stop_after and seen.count(stop_after) >= 3:
                process.send_signal(signal.SIGINT)
                stop_after = b""
    os.close(ours)
    return process.returncode, seen


def test_a_terminal_has_one_line_that_is_rewritten(tmp_path):
    with FakeHaproxy(tmp_path / "s", n=Server(in_flight=2)) as one:
        path = fleet(tmp_path, {"haproxy": {"runtime_socket": str(one.path)}})
        code, seen = on_a_terminal("stderr", "drain", str(path), "chat/n")
    assert code == 0
    progress = [line for line in seen.split(b"\r") if b"in flight" in line]
    assert progress[0] == b"\x1b[Kchat/n: 1 request in flight, waiting for 0 s"
    assert progress[1].startswith(b"\x1b[Kchat/n: 0 requests in flight")


HEARING = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGHUP):  # a shell's background job ignores them
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, "-m", "lbgen", *sys.argv[1:]])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_ends_the_waiting_leaves_it_drained_and_says_so(tmp_path, number):
    with FakeHaproxy(tmp_path / "s", n=Server(in_flight=1_000_000)) as one:
        path = fleet(tmp_path, {"haproxy": {"runtime_socket": str(one.path)}})
        command = [sys.executable, "-c", HEARING, "drain", str(path), "chat/n"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            while "in flight" not in process.stderr.readline():
                assert process.poll() is None
            process.send_signal(number)
            said = process.stderr.read()
        assert process.returncode == 130
        assert "chat/n stays drained; 'lbgen undrain' puts it back into rotation" in said
        assert one.servers["n"].admin == 8


def test_watch_redraws_until_ctrl_c(tmp_path):
    with FakeHaproxy(tmp_path / "s", n=Server()) as one:
        path = fleet(tmp_path, {"haproxy": {"runtime_socket": str(one.path)}})
        words = ("status", str(path), "--watch", "--interval", "100ms")
        code, seen = on_a_terminal("stdout", *words, stop_after=b"\x1b[H\x1b[J")
    assert code == 0
    assert seen.count(b"haproxy 3.0.11 at ") >= 2
