"""`lbgen agent` with a thousand engines that are read every second, and as many questions a second."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from integration.waiting import eventually
from lbgen.descriptors import raise_descriptor_limit
from lbgen.lab.boxes import fetch
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

pytestmark = pytest.mark.alone

ENGINES = 1_000
HOST = "127.0.0.1"
PORT, STATUS = free_port(), free_port()
WATCH_S = 15
FULL, LESS, SMALL = "up 100% maxconn:101\n", "up 100% maxconn:35\n", "up 33% maxconn:35\n"
"""What a server is told: a large one; a small one at first, and when the agent has looked for 30 s."""
SETTLED = Counter({FULL: ENGINES - ENGINES // 4, SMALL: ENGINES // 4})


class Engines(NamedTuple):
    """A process that serves all of them, and their ports."""

    process: subprocess.Popen[str]
    ports: list[int]


@pytest.fixture
def engines() -> Iterator[Engines]:
    """Run the engines; whoever wants them gone kills them."""
    raise_descriptor_limit()
    words = [sys.executable, "-m", "integration.many_engines", HOST, str(ENGINES)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield Engines(process, [int(port) for port in process.stdout.readline().split()])
    process.kill()
    process.communicate()


@contextmanager
def agent(folder: Path, ports: list[int]) -> Iterator[subprocess.Popen[bytes]]:
    """Run the agent until the end."""
    servers = [{"name": f"gpu-{number}", "address": f"{HOST}:{port}"} for number, port in enumerate(ports)]
    strategy = {"name": "kv_cache", "agent_port": PORT}
    path = folder / "fleet.yaml"
    path.write_text(
        json.dumps({"pools": {"chat": {"engine": "vllm", "strategy": strategy, "servers": servers}}})
    )
    words = [sys.executable, "-m", "lbgen", "agent", str(path), f"--status={HOST}:{STATUS}", "-q"]
    process = subprocess.Popen(words)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def health() -> str:
    """Return what the agent says of itself; empty: nothing yet."""
    try:
        return fetch(f"http://{HOST}:{STATUS}/health").body.decode()
    except OSError:
        return ""


async def answers() -> list[str]:
    """Ask for every server, as HAProxy does within a second, a connection each."""

    async def one(number: int) -> str:
        await asyncio.sleep(number / ENGINES)
        reader, writer = await asyncio.open_connection(HOST, PORT)
        writer.write(f"chat/gpu-{number}\n".encode())
        answer = await reader.read()
        writer.close()
        return answer.decode()

    return list(await asyncio.gather(*(one(number) for number in range(ENGINES))))


def changes(told: Sequence[str]) -> int:
    """Return how often a server was told something else than before."""
    return sum(one != other for one, other in pairwise(told))


def processor_s(process: subprocess.Popen[bytes]) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(process: subprocess.Popen[bytes]) -> int:
    """Return the memory that a process holds."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


def test_a_thousand_engines(engines: Engines, tmp_path: Path, measured: Callable[..., None]) -> None:
    everybody = f"ok: {ENGINES} of {ENGINES} servers can be read\n"
    with agent(tmp_path, engines.ports) as process:
        eventually(lambda: health() == everybody, 60, "all engines are read")
        before, begin, rounds = processor_s(process), time.monotonic(), []
        while time.monotonic() < begin + WATCH_S:
            rounds.append(asyncio.run(answers()))
        used = (processor_s(process) - before) / (time.monotonic() - begin)
        held = memory_mib(process)
        assert held < 1_024
        eventually(lambda: Counter(asyncio.run(answers())) == SETTLED, 90, "weights follow")
        known = asyncio.run(answers())
        assert all(set(told) <= {FULL, LESS, SMALL} for told in rounds)
        assert max(map(changes, zip(*rounds, known, strict=True))) <= 1, "no weight goes to and fro"
        engines.process.kill()
        eventually(lambda: health().startswith("ok: 0 of"), 60, "all engines are gone")
        assert asyncio.run(answers()) == known, "what is known stays"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    measured(
        f"The agent with {ENGINES} engines read every second",
        "agent",
        processor_percent_of_one_core=round(100 * used),
        memory_MiB=held,
        answers_a_second=round(len(rounds) * ENGINES / WATCH_S),
    )
