"""The command ``lbgen mock-gpu``."""

import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from lbgen.lab.mock.engine_metrics import NAMES
from lbgen.lab.mock.faults import KINDS


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


def test_many_servers_with_tls_and_a_fault_from_the_start() -> None:
    words = ("--port", "0", "--count", "2", "--tls-port", "0", "--fault", "status:418@/health")
    with subprocess.Popen(_line(*words), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().split() for _ in range(2)]
        assert [line[2] for line in lines] == ["mock-0", "mock-1"]
        context = ssl._create_unverified_context()
        for line in lines:
            with pytest.raises(urllib.error.HTTPError, match="418") as caught:
                urllib.request.urlopen(f"https://{line[-1]}/health", timeout=10, context=context)
            caught.value.close()
            with urllib.request.urlopen(f"http://{line[4].rstrip(',')}/v1/models", timeout=10) as answer:
                assert answer.headers["x-mock-server"] == line[2]
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def _refused(*words: str) -> str:
    done = subprocess.run(_line(*words), capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    return done.stderr


def test_bad_options_are_explained() -> None:
    assert "no fault is called 'nope': one of status, hang" in _refused("--port", "0", "--fault", "nope")
    assert "'x' is not a number, which slow wants" in _refused("--port", "0", "--fault", "slow:x")
    assert "--certificate needs --tls-port" in _refused("--port", "0", "--certificate", "x.pem")
    gone = ("--port", "0", "--tls-port", "0", "--certificate", "/nowhere.pem")
    assert "/nowhere.pem: no certificate with its key: No such file" in _refused(*gone)


@pytest.mark.parametrize("value", ["nan", "inf", "-1"])
@pytest.mark.parametrize("option", ["--speed", "--load-seconds"])
def test_a_number_is_a_number(option: str, value: str) -> None:
    assert f"{value}: has to be" in _refused("--port", "0", option, value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--port", "65535", "--count", "3"), "3 servers from port 65535 on are too many"),
        (("--port", "0", "--tls-port", "65534", "--count", "3"), "3 servers from port 65534 on are too many"),
        (("--port", "0", "--fault", "status:0"), "0 is not the status of an answer"),
        (("--port", "0", "--fault", "status:999"), "999 is not the status of an answer"),
        (("--port", "0", "--fault", "slow:-1"), "-1 are not seconds to wait"),
        (("--port", "0", "--fault", "slow:nan"), "nan are not seconds to wait"),
        (("--port", "0", "--fault", "status:429@nolead"), "'nolead' is not a path"),
        (("--port", "0", "--name", "a\r\nb: c"), "is not a name"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_server_begins(words: tuple[str, ...], said: str) -> None:
    done = subprocess.run(_line(*words), capture_output=True, text=True, timeout=10, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
def test_an_ipv6_address_is_told_as_one_can_use_it() -> None:
    line = _line("--port", "0", "--host", "::1")
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split()[-1].startswith("[::1]:")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_its_help_tells_every_fault() -> None:
    done = subprocess.run(_line("--help"), capture_output=True, text=True, timeout=30, check=True)
    for kind, does in KINDS.items():
        assert f"{kind} " in done.stdout
        assert does in done.stdout


def test_an_engine_without_metrics_is_refused() -> None:
    done = subprocess.run(
        _line("--port", "0", "--engine", "nope"), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert "no metrics of 'nope'" in done.stderr
    assert ", ".join(NAMES) in done.stderr
