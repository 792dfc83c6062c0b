from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lbgen import model
from lbgen.cli.guard import run
from lbgen.deploy import reload
from lbgen.deploy.addresses import taken_addresses
from lbgen.deploy.apply import apply
from lbgen.deploy.backup import Backup
from lbgen.deploy.candidate import in_users_words
from lbgen.deploy.job import Job
from lbgen.deploy.lock import RefusedError
from lbgen.deploy.planning.plan import make_plan
from lbgen.deploy.reload import Reload, by_command, by_pid_file, verify
from lbgen.files import write_files
from lbgen.problems import LbgenError
from lbgen.render import render
from lbgen.units import Address
from tests import factory
from tests.ports import free_port


def job(folder: Path, strategy: str = "least_conn", **values: object) -> Job:
    fleet = factory.fleet(factory.pool(strategy=model.StrategyChoice(strategy)))
    defaults = {
        "target": "nginx", "directory": folder, "files": render(fleet, "nginx"), "check": lambda _main: "ok",
        "reload": None, "verify": list,
    }  # fmt: skip
    return Job(**(defaults | values))  # type: ignore[arg-type]


def said(work: Job) -> list[str]:
    lines: list[str] = []
    apply(work, lines.append)
    return lines


def test_the_candidate_sees_its_neighbours_and_is_gone_afterwards(tmp_path: Path) -> None:
    (tmp_path / "privkey.pem").write_text("key")
    seen: list[str] = []

    def check(main: Path) -> str:
        seen.append((main.parent / "privkey.pem").read_text())
        assert main.parent != tmp_path
        return "seen"

    assert "nginx: seen" in said(job(tmp_path, check=check))
    assert seen == ["key"]
    assert not (tmp_path / ".lbgen-candidate").exists()


def test_a_refusal_names_files_as_the_user_knows_them(tmp_path: Path) -> None:
    (tmp_path / "certs").mkdir()
    told: list[str] = []

    def check(main: Path) -> str:
        complaint = f'cannot load "{main.parent}/certs/c.pem" in {main}:7'
        told.append(in_users_words(complaint, main))
        return "ok"

    said(job(tmp_path, check=check))
    assert told == [f'cannot load "{tmp_path}/certs/c.pem" in nginx.conf:7']


def test_a_refused_candidate_leaves_the_old_file(tmp_path: Path) -> None:
    said(job(tmp_path))
    before = (tmp_path / "nginx.conf").read_bytes()

    def check(_main: Path) -> str:
        raise RefusedError("no")

    with pytest.raises(RefusedError):
        said(job(tmp_path, "round_robin", check=check))
    assert (tmp_path / "nginx.conf").read_bytes() == before


@pytest.mark.parametrize("error", [LbgenError("dead"), KeyboardInterrupt()])
def test_what_fails_or_is_stopped_is_rolled_back(tmp_path: Path, error: BaseException) -> None:
    said(job(tmp_path))
    before = (tmp_path / "nginx.conf").read_bytes()
    acts: list[bytes] = []

    def act() -> None:
        acts.append((tmp_path / "nginx.conf").read_bytes())
        if len(acts) == 1:
            raise error

    with pytest.raises(LbgenError, match="rolled back"):
        said(job(tmp_path, "round_robin", reload=Reload("test", act)))
    assert (tmp_path / "nginx.conf").read_bytes() == before
    assert acts[0] != before
    assert acts[1] == before, "the old files are loaded again"


def test_the_way_back_from_a_reload_that_hangs_does_not_hang_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "BACK_TIMEOUT_S", 0.3)
    said(job(tmp_path))
    before = (tmp_path / "nginx.conf").read_bytes()
    threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
    begin = time.monotonic()
    with pytest.raises(LbgenError, match="interrupted\nrolled back: the old files are restored, but"):
        said(job(tmp_path, "round_robin", reload=by_command("sleep 60")))
    assert time.monotonic() - begin < 20
    assert (tmp_path / "nginx.conf").read_bytes() == before


def test_two_at_once_take_turns(tmp_path: Path) -> None:
    inside, most = [0], [0]
    gate = threading.Event()

    def check(_main: Path) -> str:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        gate.wait(0.3)
        inside[0] -= 1
        return "ok"

    threads = [
        threading.Thread(target=said, args=(job(tmp_path, name, check=check),))
        for name in ("round_robin", "random_two")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_reload_command_may_leave_a_daemon_behind(tmp_path: Path) -> None:
    """It returns when the command does, though its daemon holds the output open."""
    note, begin = tmp_path / "pid", time.monotonic()
    by_command(f"sh -c 'sleep 60 & echo $! >{note}; exit 0'").act()
    assert time.monotonic() - begin < 30
    os.kill(int(note.read_text()), signal.SIGKILL)  # raises where it does not run any more


@pytest.mark.parametrize("command", ["false", "no-such-program", "sh -c 'echo why; exit 3'", "'"])
def test_a_reload_command_that_fails(command: str) -> None:
    with pytest.raises(LbgenError, match="reload command"):
        by_command(command).act()


def test_verify_names_the_address_and_what_it_did() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    listener = factory.listener(binds=(Address("127.0.0.1", port),))
    with pytest.raises(LbgenError, match=rf"http://127.0.0.1:{port}/lb/live does not answer"):
        verify(factory.fleet(listeners=(listener,)), "nginx", "abc", deadline=0.2)


def test_verify_tells_how_long_it_has_waited() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    listener = factory.listener(binds=(Address("127.0.0.1", port),))
    told: list[tuple[int, int]] = []
    with pytest.raises(LbgenError, match="does not answer"):
        verify(
            factory.fleet(listeners=(listener,)), "nginx", "abc",
            deadline=2.5, waiting=lambda passed, whole: told.append((passed, whole)),
        )  # fmt: skip
    assert told[0] == (0, 3)
    assert (1, 3) in told
    assert told[-1] == (3, 3), "the last one takes the line away"


def test_an_address_that_another_program_holds_is_seen_before_the_reload() -> None:
    with socket.socket() as taken, socket.socket() as free:
        for one in (taken, free):
            one.bind(("127.0.0.1", 0))
        taken.listen()
        held, port = taken.getsockname()[1], free.getsockname()[1]
        free.close()
        for line in (f"listen 127.0.0.1:{held} ssl;", f"bind 127.0.0.1:{held} ssl", f"listen {held};"):
            assert [text.rpartition(":")[2] for text in taken_addresses("", f"    {line}\n")] == [str(held)]
            assert not taken_addresses(f"    {line}\n", f"    {line}\n"), "our own, from before"
        assert not taken_addresses("", f"    bind 127.0.0.1:{port}\n")
        assert not taken_addresses("", f"    bind 192.0.2.1:{port}\n"), "an address that comes and goes"


def test_apply_refuses_a_taken_address_where_it_checks_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "nginx"
    program.write_text("#!/bin/sh\necho nginx version: nginx/1.22.1\n")
    program.chmod(0o755)
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(
        "pools: {chat: {engine: vllm, servers: [gpu-0:8000]}}\nlisteners: {a: {bind: '127.0.0.1:1'}}\n"
    )
    arguments = ["apply", str(fleet), "-t", "nginx", "--to", str(tmp_path), "--binary", f"nginx={program}"]
    assert run(arguments) == 0
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert run([*arguments, "--set", f"listeners.a.bind={where}"]) == 1
    assert f"another program listens on {where}" in capsys.readouterr().err


def refusing() -> None:
    raise LbgenError("no")


def test_what_ran_before_a_killed_apply_is_what_comes_back(tmp_path: Path) -> None:
    said(job(tmp_path))
    before = (tmp_path / "nginx.conf").read_bytes()
    killed = job(tmp_path, "round_robin")
    Backup(tmp_path, "nginx.conf").take(make_plan("nginx", tmp_path, killed.files).files)
    write_files(tmp_path, killed.files)
    assert make_plan("nginx", tmp_path, killed.files).unfinished

    with pytest.raises(LbgenError, match="reloading them failed as well"):
        said(job(tmp_path, "random_two", reload=Reload("test", refusing)))
    assert (tmp_path / "nginx.conf").read_bytes() == before
    plan = make_plan("nginx", tmp_path, job(tmp_path).files)
    assert plan.unfinished, "nobody knows what runs until a reload succeeds"
    acts: list[int] = []
    lines = said(job(tmp_path, reload=Reload("test", lambda: acts.append(1))))
    assert acts, "the same files, and still a reload"
    assert any("was interrupted" in line for line in lines)
    assert make_plan("nginx", tmp_path, job(tmp_path).files).is_empty


def test_the_backup_is_what_was_there_before(tmp_path: Path) -> None:
    said(job(tmp_path))
    before = (tmp_path / "nginx.conf").read_bytes()
    said(job(tmp_path, "round_robin"))
    assert (tmp_path / ".lbgen-backup/files/nginx.conf").read_bytes() == before
    assert (tmp_path / ".lbgen-backup").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("room", range(8))
def test_a_full_disk_leaves_all_as_it_was(room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said(job(tmp_path))
    before = {path: path.read_bytes() for path in tmp_path.glob("*.conf")}
    work = job(tmp_path, "round_robin")
    calls = []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) > room:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LbgenError, match="No space left on device"):
        said(work)
    assert {path: path.read_bytes() for path in tmp_path.glob("*.conf")} == before


@pytest.mark.parametrize(
    ("version", "words"), [("1.26", "but the fleet is for 1.26"), ("1.22", "the new files\n")]
)
def test_apply_says_when_the_program_is_of_another_version(
    tmp_path: Path, version: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "nginx"
    program.write_text("#!/bin/sh\necho nginx version: nginx/1.22.1\n")
    program.chmod(0o755)
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("pools: {chat: {engine: vllm, servers: [gpu-0:8000]}}\n")
    arguments = [
        "apply",
        str(fleet),
        "-t",
        "nginx",
        "--to",
        str(tmp_path / "to"),
        "--target-version",
        version,
    ]
    assert run([*arguments, "--binary", f"nginx={program}"]) == 0
    assert words in capsys.readouterr().err


def test_smoke_without_a_reload_is_wrong_usage(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("pools: {chat: {engine: vllm, servers: [gpu-0:8000]}}\n")
    arguments = ["apply", str(fleet), "-t", "nginx", "--to", str(tmp_path / "to"), "--binary", "none"]
    assert run([*arguments, "--smoke", "/v1/completions"]) == 2
    assert run([*arguments, "--smoke", "v1", "--reload", "true"]) == 2
    assert run([*arguments, "--timeout", "soon", "--reload", "true"]) == 2
    assert not (tmp_path / "to").exists()


def test_a_smoke_request_that_fails_rolls_back(tmp_path: Path) -> None:
    said(job(tmp_path))
    before = (tmp_path / "nginx.conf").read_bytes()

    def smoke() -> list[str]:
        assert (tmp_path / "nginx.conf").read_bytes() != before
        raise LbgenError("no tokens")

    acts: list[int] = []
    with pytest.raises(LbgenError, match=r"(?s)no tokens.*rolled back: the old files are restored"):
        said(job(tmp_path, "round_robin", reload=Reload("test", lambda: acts.append(1)), smoke=smoke))
    assert (tmp_path / "nginx.conf").read_bytes() == before
    assert len(acts) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_may_plan() -> None:
    script = (
        "import os, sys; from pathlib import Path; from lbgen.deploy.backup import Backup; os.setuid(65534);"
        "print(Backup(Path(sys.argv[1]), 'nginx.conf').unfinished)"
    )
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        said(job(Path(name)))
        said(job(Path(name), "round_robin"))
        command = [sys.executable, "-c", script, name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr


def test_a_rollback_says_whether_the_old_files_run(tmp_path: Path) -> None:
    said(job(tmp_path))
    asked: list[str] = []

    def runs_again(text: str) -> bool:
        asked.append(text)
        return False

    def smoke() -> list[str]:
        raise LbgenError("no tokens")

    work = job(
        tmp_path, "round_robin", reload=Reload("test", lambda: None), smoke=smoke, runs_again=runs_again
    )
    with pytest.raises(LbgenError, match="no listener answers with them"):
        said(work)
    assert asked == [(tmp_path / "nginx.conf").read_text()]


def test_an_apply_that_does_not_reload_leaves_what_is_owed(tmp_path: Path) -> None:
    said(job(tmp_path))
    Backup(tmp_path, "nginx.conf").take(())  # as an apply that was killed leaves it
    assert not apply(job(tmp_path, "round_robin"), lambda _: None).in_effect
    assert Backup(tmp_path, "nginx.conf").unfinished
    said(job(tmp_path, "round_robin", reload=Reload("here", lambda: None)))
    assert not Backup(tmp_path, "nginx.conf").unfinished


@pytest.mark.parametrize("error", [UnicodeEncodeError("latin-1", "é", 0, 1, "no"), KeyError("x")])
def test_whatever_goes_wrong_is_rolled_back(tmp_path: Path, error: Exception) -> None:
    said(job(tmp_path))
    before = (tmp_path / "nginx.conf").read_bytes()

    def act() -> None:
        if (tmp_path / "nginx.conf").read_bytes() != before:
            raise error

    with pytest.raises(LbgenError, match=r"internal error: .*\nrolled back: the old files are restored"):
        said(job(tmp_path, "round_robin", reload=Reload("here", act)))
    assert (tmp_path / "nginx.conf").read_bytes() == before


def test_an_empty_digest_is_another_one(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="the plan is now"):
        said(job(tmp_path, expect=""))
    assert not (tmp_path / "nginx.conf").exists()


@pytest.mark.parametrize("text", ["", "0", "-1", "1", "x", "99999999999999999999"])
def test_a_pid_file_that_names_no_process(tmp_path: Path, text: str) -> None:
    (tmp_path / "pid").write_text(text)
    with pytest.raises(LbgenError, match="cannot be reloaded"):
        by_pid_file("nginx", tmp_path / "pid").act()


@pytest.mark.parametrize("text", ["", "{broken", "[1]"])
def test_a_mark_of_somebody_else_is_named(tmp_path: Path, text: str) -> None:
    said(job(tmp_path))
    (tmp_path / ".lbgen-backup/unfinished.json").write_text(text)
    with pytest.raises(LbgenError, match=r"unfinished.json: not written by lbgen"):
        said(job(tmp_path, "round_robin"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "fleet.yaml"], "give the folder of nginx's files, or the nginx.conf in it"),
        (["--to", "etc/my.conf"], "give the folder of nginx's files, or the nginx.conf in it"),
        (["--to", " "], "--to is empty"),
        (["--to", "etc", "--reload", " "], "--reload is empty"),
        (["--to", "etc", "--smoke", "/é"], "--smoke /é: not the path of a request"),
    ],
)
def test_wrong_usage_touches_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fleet.yaml").write_text("pools: {chat: {servers: [gpu-0:8000]}}\ntargets: {nginx: {}}\n")
    assert run(["apply", "fleet.yaml", "--binary", "none", *words]) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.yaml"]


def test_what_does_not_run_is_started(tmp_path: Path) -> None:
    done: list[str] = []
    start, again = (Reload(word, lambda word=word: done.append(word)) for word in ("start", "reload"))
    where = job(tmp_path, start=start, reload=again, silent=lambda: True)
    assert "nginx: started (start)" in said(where)
    assert done == ["start"]
    said(where)
    assert done == ["start", "start"], "the files are as they should be, and still nothing runs"
    runs = job(tmp_path, "round_robin", start=start, reload=again, silent=lambda: False)
    assert "nginx: reloaded (reload)" in said(runs)
    said(runs)
    assert done == ["start", "start", "reload"]


def test_nothing_is_started_where_another_program_answers(tmp_path: Path) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        fleet = tmp_path / "fleet.yaml"
        bind = f"127.0.0.1:{server.server_port}"
        fleet.write_text(
            "pools: {chat: {servers: [127.0.0.1:9]}}\n"
            f"listeners: {{local: {{bind: '{bind}', auth: none}}}}\ntargets: {{nginx: {{}}}}\n"
        )
        words = ["apply", str(fleet), "--to", str(tmp_path / "lb"), "--binary", "none", "--start", "true"]
        assert run(words) == 1
        server.shutdown()
    assert not (tmp_path / "lb" / "nginx.conf").exists()


@pytest.mark.parametrize("how", [{}, {"start": by_command("true", "start")}], ids=["nothing", "start"])
def test_where_another_balancer_of_ours_runs_nothing_is_touched(tmp_path: Path, how: dict) -> None:
    """One of another target on the same port: its live probe names files that never lay here."""
    with pytest.raises(RefusedError, match="another balancer of lbgen is listening there"):
        said(job(tmp_path, runs_other=lambda names: "elsewhere" not in names, **how))
    assert not (tmp_path / "nginx.conf").exists()


@pytest.mark.parametrize("how", [{}, {"reload": Reload("here", lambda: None)}], ids=["unsaid", "reload"])
def test_what_nothing_made_the_balancer_load_is_not_in_effect(tmp_path: Path, how: dict) -> None:
    said(job(tmp_path))
    assert apply(job(tmp_path, "round_robin", **how), lambda _: None).in_effect is ("reload" in how)


def test_files_that_do_not_run_are_no_success(tmp_path: Path) -> None:
    said(job(tmp_path))
    with pytest.raises(RefusedError, match="the balancer runs with older ones: reload it with --reload"):
        said(job(tmp_path, runs_other=lambda _: True))


def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def dead() -> list[str]:
        raise LbgenError("does not answer")

    start = by_command("true", "start")
    with pytest.raises(LbgenError, match=r"does not answer\nrolled back: the new files are removed.*stop it"):
        said(job(tmp_path, start=start, silent=lambda: True, verify=dead))
    assert not (tmp_path / "nginx.conf").exists()
    with pytest.raises(LbgenError, match="the start command failed"):
        by_command("/nowhere/at-all", "start").act()


def test_where_nothing_listens_is_said_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(
        "pools: {chat: {servers: [127.0.0.1:9]}}\n"
        f"listeners: {{local: {{bind: '127.0.0.1:{port}', auth: none}}}}\ntargets: {{nginx: {{}}}}\n"
    )
    words = ["apply", str(fleet), "--to", str(tmp_path / "lb"), "--binary", "none"]
    begin = time.monotonic()
    assert run([*words, "--reload", "true"]) == 2
    assert time.monotonic() - begin < 10
    said_so = capsys.readouterr().err
    assert (
        "nothing listened there before: if the balancer is not running yet, start it with --start CMD"
        in said_so
    )
    assert "rolled back: the new files are removed" in said_so
    assert run([*words, "--pid", str(tmp_path / "none.pid")]) == 2
    assert "start it with --start CMD" in capsys.readouterr().err
    assert not list((tmp_path / "lb").rglob("*.conf")), (
        "a missing PID file is seen before anything is written"
    )
    assert run([*words, "--start", " "]) == 2
    assert "--start is empty" in capsys.readouterr().err
