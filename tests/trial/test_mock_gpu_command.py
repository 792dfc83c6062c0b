"""The command ``lbgen mock-gpu``."""

import signal
import socket
import subprocess
import sys
import urllib.request


def _line(*words: str) -> list[str]:
    return [sys.executable, "-m", "lbgen", "mock-gpu", *words]


def test_it_serves_until_it_is_told_to_stop() -> None:
    with subprocess.Popen(
        _line("--port", "0", "--name", "one"), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(f"http://{address}/health", timeout=10) as answer:
            assert answer.status == 200
            assert answer.headers["x-mock-server"] == "one"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(_line("--port", port), capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr


def test_an_engine_without_metrics_is_refused() -> None:
    done = subprocess.run(
        _line("--port", "0", "--engine", "nope"), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert "no metrics of 'nope'" in done.stderr
