"""The rig leaves nothing behind: not after a crash, not after Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.images import resolve
from lbgen.lab.rig import LABEL, Rig, connect, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = """
import sys, time
from lbgen.lab.rig import Rig
with Rig() as rig:
    rig.mocks(["gpu-0"], sys.argv[1])
    print(rig.network, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def program(rig: Rig) -> Iterator[subprocess.Popen[str]]:  # noqa: ARG001 - asks for Docker
    """Another process with a rig of its own, up and running."""
    command = [sys.executable, "-c", PROGRAM, resolve("bookworm", "python")]
    root = Path(__file__).parent.parent
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=root
    ) as running:
        yield running
        running.kill()


def left(network: str) -> tuple[int, int]:
    """Return how many networks and containers of a rig there are."""
    client = connect()
    containers = client.containers.list(all=True, filters={"network": network})
    return len(client.networks.list(names=[network])), len(containers)


def test_nothing_is_left_after_an_interrupt(program: subprocess.Popen[str]) -> None:
    assert program.stdout is not None
    network = program.stdout.readline().strip()
    assert left(network) == (1, 1)
    program.send_signal(signal.SIGINT)
    program.wait(30)
    assert left(network) == (0, 0)


def test_what_a_crash_leaves_is_swept_later(program: subprocess.Popen[str], rig: Rig) -> None:
    assert program.stdout is not None
    network = program.stdout.readline().strip()
    sweep(connect())
    assert left(network) == (1, 1), "the owner is alive"
    program.kill()
    program.wait(30)
    assert left(network) == (1, 1)
    sweep(connect())
    assert left(network) == (0, 0)
    assert left(rig.network)[0] == 1, "ours is untouched"


def test_everything_carries_the_label(rig: Rig) -> None:
    (network,) = connect().networks.list(names=[rig.network])
    assert LABEL in network.attrs["Labels"]
