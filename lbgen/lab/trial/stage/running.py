"""Programs that a trial runs on this machine, and how it waits for them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from lbgen.lab.problems import RigError
from lbgen.units import Address

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

PATIENCE_S = 20.0
LOOPBACK = "127.0.0.1"
LAST_WORDS = 3000
KEEPER = (sys.executable, "-m", "lbgen.lab.trial.stage.keeper")


def free(count: int, host: str = LOOPBACK) -> list[Address]:
    """Return so many addresses that nobody listens on."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server((host, 0))) for _ in range(count)]
        return [Address(host, probe.getsockname()[1]) for probe in probes]


@contextmanager
def kept(words: Sequence[str], output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that ends with us, whatever becomes of us."""
    with process([*KEEPER, *words], output) as one:
        yield one


@contextmanager
def process(
    words: Sequence[str], output: Path, *, stdout: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that ends when its standard input does."""
    with output.open("wb") as log:
        one = subprocess.Popen(  # noqa: S603 - our own words, without a shell
            list(words), stdin=subprocess.PIPE, stdout=log if stdout is None else stdout, stderr=log,
            start_new_session=True, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    with one:
        try:
            yield one
        finally:
            _end(one)


def answers(address: Address, timeout_s: float = 1.0) -> bool:
    """Tell whether somebody listens."""
    try:
        with socket.create_connection((address.host, address.port), timeout_s):
            return True
    except OSError:
        return False


def wait_for(address: Address, one: subprocess.Popen[bytes], output: Path, who: str) -> None:
    """Return once a program listens; raises `RigError` with its own words when it does not."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and one.poll() is None:
        if answers(address):
            return
        time.sleep(0.05)
    words = output.read_text(errors="replace").replace(f"{output.parent}/", "").strip()
    raise RigError(f"{who}; it says:\n{words[-LAST_WORDS:]}")


def _end(one: subprocess.Popen[bytes]) -> None:
    assert one.stdin is not None  # noqa: S101 - it is a pipe
    one.stdin.close()
    for number, patience_s in ((None, 4.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, None)):
        try:
            if number is not None:
                os.killpg(one.pid, number)
            one.wait(patience_s)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
