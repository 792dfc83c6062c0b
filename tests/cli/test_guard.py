"""What the shell sees when something goes wrong around the program."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from integration.waiting import eventually
from lbgen.cli import guard
from lbgen.problems import FleetError, LbgenError, Problem

LBGEN = [sys.executable, "-m", "lbgen"]


def test_a_reader_that_leaves():
    script = f"{sys.executable} -m lbgen schema | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.strip().endswith(("141", "0"))


def test_nobody_reads_the_messages():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*LBGEN, "rendr"], stdout=subprocess.PIPE, stderr=writer, check=False)
    os.close(writer)
    assert (done.returncode, done.stdout) == (guard.BROKEN_PIPE, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full: run the tests on Linux")
@pytest.mark.parametrize("arguments", [["schema"], ["--help"], ["--version"], ["completion", "bash"]])
def test_a_full_disk(arguments):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*LBGEN, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [("schema >&-", 2), ("--version >&-", 2), ("rendr 2>&-", 2), ("render - -t nginx <&-", 2)],
)
def test_closed_streams(arguments, code):
    command = f"{sys.executable} -m lbgen {arguments}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_a_result_that_is_lost_is_told(tmp_path):
    (tmp_path / "f.yaml").write_text("pools: {chat: {servers: [gpu-0:8000]}}\n")
    command = f"{sys.executable} -m lbgen -q render f.yaml -t nginx"
    lost = subprocess.run(["bash", "-c", f"{command} >&-"], capture_output=True, cwd=tmp_path, check=False)
    assert (lost.returncode, lost.stderr) == (2, b"lbgen: error: standard output: is closed\n")
    none = subprocess.run(["bash", "-c", f"{command} -o out >&-"], cwd=tmp_path, check=False)
    assert none.returncode == 0, "there is no result to lose"
    assert (tmp_path / "out/nginx/nginx.conf").read_text().startswith("#")


@pytest.mark.parametrize("old", ["", "the old one"])
def test_a_report_is_written_whole_or_not_at_all(tmp_path, old):
    (tmp_path / "f.yaml").write_text("pools: {chat: {servers: [gpu-0:8000], engine: vllm}}\n")
    if old:
        (tmp_path / "r.html").write_text(old)
    before = sorted(path.name for path in tmp_path.iterdir())
    command = f"ulimit -f 4; {sys.executable} -m lbgen simulate f.yaml --requests 50 --report r.html"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "r.html: cannot be written" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert not old or (tmp_path / "r.html").read_text() == old


def test_ctrl_c_while_everything_is_imported():
    script = (
        "import sys, lbgen.__main__ as main\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'lbgen.cli.app':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "main.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def waiting_bytes(pipe):
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_ctrl_c():
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*LBGEN, "render", "-", "-t", "nginx"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
    )
    process.stdin.write("pools:\n")
    process.stdin.flush()
    eventually(lambda: waiting_bytes(process.stdin) == 0, 60, "it reads")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in errors


def raising(error):
    def fail(*_arguments):
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (LbgenError("no such thing"), 2, "no such thing"),
        (FleetError([Problem("some-code", "is wrong")]), 1, "some-code"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (FileNotFoundError(2, "No such file or directory", "x.yaml"), 2, "x.yaml: No such file"),
        (RecursionError(), 2, "too deeply"),
        (MemoryError(), 2, "too large"),
        (KeyError("x"), 2, "internal error: KeyError"),
    ],
)
def test_every_failure_has_its_code_and_line(monkeypatch, capsys, error, code, says):
    monkeypatch.setattr(guard, "_drop_output", lambda *_: None)
    monkeypatch.setattr(guard, "_run", raising(error))
    assert guard.run([]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert says in captured.err
    assert "Traceback" not in captured.err


def test_verbose_shows_the_stack_of_our_own_faults(monkeypatch, capsys):
    def fail(_arguments, console):
        console.verbose = True
        raise KeyError("x")

    monkeypatch.setattr(guard, "_run", fail)
    assert guard.run([]) == 2
    assert "Traceback" in capsys.readouterr().err
