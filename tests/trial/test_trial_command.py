"""The command ``lbgen trial``, with programs that stand in for HAProxy; the real ones are in integration/."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from integration.waiting import eventually
from lbgen.checker.certificate import throwaway_bundle
from lbgen.cli.console import Console
from lbgen.cli.predict import trial

pytestmark = pytest.mark.slow

FLEET = """
pools: {chat: {engine: vllm, servers: ['gpu-[0-1]:8000']}}
listeners: {in: {bind: '127.0.0.1:8080', routes: [{pool: chat}]}}
targets: {haproxy: {}}
"""
SHORT = ("--requests=40", "--rate=40", "--workload=fixed:output=20", "--strategy=round_robin")


class Bench:
    """A folder with a fleet, a program, and temporary files of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        program = folder / "bin" / "haproxy"
        program.parent.mkdir()
        fake = Path(__file__).with_name("fake_haproxy.py")
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {fake} "$@"\n')
        program.chmod(0o755)
        self.fleet(FLEET)

    def fleet(self, text: str) -> None:
        (self.folder / "fleet.yaml").write_text(text)

    def environment(self) -> dict[str, str]:
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        docker = "unix:///nowhere/docker.sock"
        return os.environ | {"PATH": path, "TMPDIR": str(self.temporary), "DOCKER_HOST": docker}

    def line(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "lbgen", "trial", "fleet.yaml", *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.line(*words), cwd=self.folder, env=self.environment(), capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip

    def left(self) -> list[str]:
        """What of a trial is still there: folders, and processes that run in them or of its own programs."""
        found = [one.name for one in self.temporary.iterdir()]
        for one in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"TMPDIR={self.temporary}\0".encode() in one.read_bytes():
                    found.append((one.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_trial_from_end_to_end(bench: Bench) -> None:
    done = bench.run(
        *SHORT, "--format=json", "--report=r.html", "--expect=errors<1", "--expect=load_stdev<0.001"
    )
    assert done.returncode == 1, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert (result["ok"], sum(one["requests"] for one in result["servers"])) == (40, 40)
    assert "load_stdev<0.001: does not hold for round_robin on haproxy" in done.stderr
    assert "errors<1" not in done.stderr
    page = (bench.folder / "r.html").read_text()
    assert "Expected load_stdev&lt;0.001: does not hold" in page
    assert bench.left() == []


def test_text_has_predicted_beside_measured_and_v_the_differences(bench: Bench) -> None:
    done = bench.run("-v", *SHORT)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("round_robin")]
    assert "predicted" in lines[at]
    assert lines[at + 1].split()[:2] == ["measured", "40"]
    changed = [
        line for line in done.stderr.splitlines() if line.startswith(("-", "+")) and "server gpu-1" in line
    ]
    assert [line.split()[3].partition(":")[0] for line in changed] == ["gpu-1", "127.0.0.1"]


def test_a_run_in_which_more_than_one_in_a_hundred_failed_fails(bench: Bench) -> None:
    capped = FLEET.replace("engine: vllm", "engine: vllm, max_in_flight: 64")
    bench.fleet(capped.replace("haproxy: {}", "haproxy: {raw: {global: ['# refuse every third']}}"))
    words = (*SHORT, "--fresh-connections")
    done = bench.run(*words)
    assert done.returncode == 1, done.stdout
    headline = done.stdout.splitlines()[1]
    assert headline.startswith("FAILED under round_robin on haproxy: ")
    assert "x 503" in headline
    assert "see pools.chat.max_in_flight or pools.chat.queue" in headline
    assert "requests failed" in done.stderr
    assert "--allow-errors accepts that" in done.stderr
    assert bench.run(*words, "--allow-errors").returncode == 0
    assert bench.run(*words, "--expect=errors<61").returncode == 0


def test_conversations_run(bench: Bench) -> None:
    done = bench.run("--workload=chat:turns=4,think_s=0.5,output=10", "--requests=16", "--rate=20",
                     "--strategy=least_conn", "--format=json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"][0]["ok"] == 16


def _tls(bench: Bench) -> str:
    tls = f"{{certificate: {bench.folder}/c.pem, key: {bench.folder}/k.pem}}"
    return FLEET.replace("8080',", f"8443', tls: {tls},").replace("haproxy: {}", "haproxy: {version: '3.2'}")


def test_certificates_that_are_not_here(bench: Bench) -> None:
    bench.fleet(_tls(bench))
    done = bench.run(*SHORT)
    assert done.returncode == 2
    assert f"{bench.folder}/c.pem, {bench.folder}/k.pem; use generated ones with --stand-ins" in done.stderr
    assert bench.left() == []


@pytest.mark.parametrize("here", [True, False])
def test_certificates_that_are_here_or_made_up(bench: Bench, here: bool) -> None:
    bench.fleet(_tls(bench))
    if here:
        for name in ("c.pem", "k.pem"):
            (bench.folder / name).write_text(throwaway_bundle())
    done = bench.run("-v", *SHORT, "--allow-errors", *(() if here else ("--stand-ins",)))
    # The stand-in for HAProxy speaks no TLS, so that requests fail; the real ones are in integration/.
    assert done.returncode == 0, done.stderr
    assert "40 x Client" in done.stdout
    assert ("stand-ins/bundle.pem" in done.stderr) != here


def test_a_refused_file_is_told_in_the_programs_own_words(bench: Bench) -> None:
    bench.fleet(FLEET.replace("haproxy: {}", "haproxy: {raw: {global: [bogus]}}"))
    done = bench.run(*SHORT)
    assert done.returncode == 2
    assert "haproxy does not run with what was rendered; it says:" in done.stderr
    assert "parsing [haproxy.cfg:9] : unknown keyword 'bogus'" in done.stderr
    assert bench.left() == []


def test_an_old_program_is_named_with_what_helps(bench: Bench) -> None:
    bench.fleet(FLEET.replace("haproxy: {}", "haproxy: {version: '3.4'}"))
    done = bench.run(*SHORT, "--runtime=process")
    assert done.returncode == 2
    assert "the haproxy here is 3.2, older than the fleet's 3.4" in done.stderr
    assert "--target-version haproxy=3.2" in done.stderr


def test_without_docker_it_is_said(bench: Bench) -> None:
    done = bench.run(*SHORT, "--runtime=docker")
    assert done.returncode == 2
    assert "no Docker engine answers: install Docker" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--report=no/such/r.html"], "no/such/r.html: cannot be written: there is no folder no/such"),
        (["--report=r.svg"], "--report: name it FILE.html"),
        (["--report=r.txt"], "--report: name it FILE.html"),
        (["--report="], "--report names no file"),
        (["--rate=1e-9", "--requests=20"], "hours: try a higher --rate"),
        (["--rate=nan"], "nan: has to be above 0"),
        (["--load=nan"], "nan: has to be above 0"),
        (["--expect=p98<1"], "  p98<1\n  ^"),
        (["--image=nginx"], "write PROGRAM=IMAGE"),
        (["--strategy=pack"], "nothing is left to try"),
        (["--load=1", "--rate=1"], "say the same thing twice"),
    ],
)
def test_bad_options_cost_no_time(bench: Bench, words: list[str], said: str) -> None:
    done = bench.run("--requests=50000", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert bench.left() == []


@pytest.mark.parametrize(("seconds", "said"), [(3_500, 0), (4_000, 1)])
def test_a_long_trial_is_announced(seconds: float, said: int, capsys: pytest.CaptureFixture[str]) -> None:
    row = SimpleNamespace(runs=[SimpleNamespace(duration_s=seconds)])
    made: Any = SimpleNamespace(predictions=[SimpleNamespace(rows=[row, row])], speed=2.0, beside=None)
    trial._expect_an_end(Console(), made)
    assert capsys.readouterr().err.count("all runs together take about 1.11 hours") == said


def _started(bench: Bench) -> subprocess.Popen[Any]:
    running = subprocess.Popen(
        bench.line("--requests=2000", "--rate=20", "--strategy=round_robin"),
        cwd=bench.folder, env=bench.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    eventually(
        lambda: any("fake_haproxy" in one and one.rstrip().endswith("haproxy.cfg") for one in bench.left()),
        60,
        "the balancer runs",
    )
    return running


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_after_an_interrupt(bench: Bench, number: int) -> None:
    with _started(bench) as running:
        running.send_signal(number)
        assert running.wait(30) == 130
    assert bench.left() == []


def test_what_is_finished_is_kept_after_an_interrupt(bench: Bench) -> None:
    with subprocess.Popen(
        bench.line(*SHORT, "--strategy=least_conn", "--requests=200", "--expect=errors<0"),
        cwd=bench.folder, env=bench.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        assert running.stderr is not None
        while "1 of 2 runs done" not in running.stderr.readline():
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        said, complaints = running.communicate(timeout=60)
    assert running.returncode == 130
    assert ("round_robin" in said, "least_conn on" in said) == (True, False)
    assert "interrupted: 1 of 2 runs are finished" in complaints
    assert "expected" not in complaints
    assert bench.left() == []


def test_a_killed_trial_leaves_no_process_and_the_next_one_sweeps_its_folder(bench: Bench) -> None:
    with _started(bench) as running:
        running.kill()
    eventually(lambda: len(bench.left()) <= 1, 30, "the processes are gone")
    (folder,) = bench.left()
    assert folder.startswith("lbgen-trial-")
    assert bench.run(*SHORT).returncode == 0
    assert bench.left() == []
