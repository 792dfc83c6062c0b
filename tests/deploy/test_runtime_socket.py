"""What answers on a socket is not always HAProxy."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lbgen.deploy.runtime import runtime_socket as module
from lbgen.deploy.runtime.runtime_socket import Info, RuntimeSocket
from lbgen.problems import LbgenError
from tests.deploy.fake_haproxy import STATES, STATS, FakeHaproxy, Server

ELSE = "not HAProxy's runtime socket"
NOISE = bytes(range(1, 256)) * 3


@contextmanager
def answering(path: Path, answer: Callable[[socket.socket], None]) -> Iterator[RuntimeSocket]:
    """Let a socket answer one question."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.recv(65_536)
            answer(connection)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield RuntimeSocket(str(path))
        thread.join()


def test_what_a_process_says_of_itself(tmp_path: Path) -> None:
    with FakeHaproxy(tmp_path / "s", a=Server()) as one:
        assert RuntimeSocket(str(one.path)).info() == Info("3.0.11", "100", 61)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (RuntimeSocket.stats, NOISE),
        (RuntimeSocket.stats, b""),
        (RuntimeSocket.stats, f"# {STATS}\nchat,{'x' * 140_000}\n".encode()),
        (RuntimeSocket.stats, f"# {STATS}\nchat,a,2,0\n".encode()),
        (RuntimeSocket.states, NOISE),
        (RuntimeSocket.states, f"1\n# {STATES}\n3 chat 1 a 10.0.0.1 2 0 1 1\n".encode()),
        (RuntimeSocket.states, f"1\n# {STATES}\n3 chat 1 a 10.0.0.1 2 zero 1 1 0 - 8000\n".encode()),
        (RuntimeSocket.states, f"1\n# {STATES}\n3 chat 1 a 10.0.0.1 2 0 {'1' * 5_000} 1 0 - 80\n".encode()),
        (RuntimeSocket.info, NOISE),
        (RuntimeSocket.info, b"Version: 3.0\nPid: 7\nUptime_sec: soon\n"),
        (RuntimeSocket.info, b"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n\r\n"),
    ],
    ids=[
        "noise for stats",
        "nothing for stats",
        "a field over 128 KiB",
        "stats that were cut",
        "noise for states",
        "states that were cut",
        "a state that is no number",
        "a number without end",
        "noise for info",
        "an uptime that is no number",
        "HTTP",
    ],
)
def test_somebody_else_answers(tmp_path: Path, ask: Callable[[RuntimeSocket], object], text: bytes) -> None:
    with (
        answering(tmp_path / "s", lambda connection: connection.sendall(text)) as one,
        pytest.raises(LbgenError) as raised,
    ):
        ask(one)
    assert str(raised.value) == f"{tmp_path / 's'}: {ELSE}"


def test_an_answer_that_trickles_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.2)

    def trickle(connection: socket.socket) -> None:
        for _ in range(200):
            connection.sendall(b"x")
            time.sleep(0.05)

    with (
        answering(tmp_path / "s", trickle) as one,
        pytest.raises(LbgenError, match=r"timed out|does not end"),
    ):
        one.stats()


def test_an_answer_that_is_too_large_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 100_000)
    with (
        answering(tmp_path / "s", lambda connection: connection.sendall(b"x" * 4_000_000)) as one,
        pytest.raises(LbgenError, match="does not end"),
    ):
        one.stats()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("..:80", "'..' is not a host name"),
        (f"{'a' * 64}.example:80", "is not a host name"),
        ("localhost:99999", "99999 is not a port"),
        (f"localhost:{'9' * 5_000}", "is not a port"),
    ],
)  # fmt: skip
def test_what_is_no_place(place: str, said: str) -> None:
    with pytest.raises(LbgenError) as raised:
        RuntimeSocket(place).info()
    assert said in str(raised.value)
    assert str(raised.value).startswith(f"{place}: ")
