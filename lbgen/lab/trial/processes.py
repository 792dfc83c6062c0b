"""Trials with programs of this machine: loopback ports, no Docker, no root."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lbgen.checker.check import CHECKERS
from lbgen.checker.surroundings import Surroundings
from lbgen.lab.problems import RigError
from lbgen.lab.trial.mapping import binds_of, readdressed, without_socket
from lbgen.render import render
from lbgen.runtimes.process import find_local
from lbgen.secret_values import StandInSecrets
from lbgen.units import Address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lbgen.lab.trial.mapping import Way
    from lbgen.model import Fleet, Pool
    from lbgen.render import RenderedFile

PATIENCE_S = 20.0
LOOPBACK = "127.0.0.1"


class Processes:
    """Mock GPU servers and balancers as processes of our own, ended with it; a context manager."""

    name = "process"

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="lbgen-trial-")))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def mocks(self, settings: Sequence[Mapping[str, object]]) -> dict[str, Address]:
        """Start mock GPU servers; return their addresses by name. Raises `RigError`."""
        words = [sys.executable, "-m", "lbgen.lab.trial.farm", *map(json.dumps, settings)]
        output = self._folder / "mocks.log"
        process = self._stack.enter_context(
            _process(words, output, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        line = process.stdout.readline() if _readable(process.stdout.fileno()) else b""
        if not line:
            raise RigError(f"the mock GPU servers did not start: {output.read_text()[-2000:]}")
        names = [str(one["name"]) for one in settings]
        return {name: Address(LOOPBACK, port) for name, port in zip(names, json.loads(line), strict=True)}

    @contextmanager
    def balancer(
        self, target: str, fleet: Fleet, pool: Pool, way: Way, servers: Mapping[str, Address]
    ) -> Iterator[tuple[str, tuple[RenderedFile, ...]]]:
        """Run a balancer for the fleet; give its URL and its files. Raises `RigError`."""
        program = find_local(target)
        if program is None:
            raise RigError(f"there is no program {target} on this machine: install it")
        with tempfile.TemporaryDirectory(prefix=f"{target}-", dir=self._folder) as name:
            folder = Path(name)
            listeners = dict(zip(binds_of(fleet), _free(len(binds_of(fleet))), strict=True))
            moved = readdressed(fleet, pool, servers, listeners)
            moved = moved._replace(targets=tuple(without_socket(one, name) for one in moved.targets))
            around = Surroundings(folder, fleet.target(target).directory, in_container=False, resolve=False)
            moved = CHECKERS[target].stand_in(moved, around, program)
            files = render(moved, target, secrets=StandInSecrets())
            for file in files:
                path = folder / file.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(file.text, encoding="utf-8", errors="surrogateescape")
            words = [program.place, *_arguments(target, folder / files[0].path)]
            output = folder / "output.log"
            address = listeners[way.listener.binds[0]]
            with _process(words, output, stdin=subprocess.DEVNULL) as process:
                _wait(target, process, address, output)
                yield f"http://{address}", files


def _arguments(target: str, main_file: Path) -> list[str]:
    if target == "nginx":
        pid = f"pid {main_file.parent}/stand-ins.pid; daemon off;"
        return ["-e", "stderr", "-c", str(main_file), "-g", pid]
    return ["-db", "-f", str(main_file)]


def _free(count: int) -> list[Address]:
    """Return so many addresses that nobody listens on."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(count)]
        return [Address(LOOPBACK, probe.getsockname()[1]) for probe in probes]


def _wait(target: str, process: subprocess.Popen[bytes], address: Address, output: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with socket.create_connection((address.host, address.port), 1):
                return
        except OSError:
            time.sleep(0.05)
    words = output.read_text(errors="replace").strip()[-3000:]
    raise RigError(f"{target} does not run with what was rendered; it says:\n{words}")


@contextmanager
def _process(
    words: Sequence[str], output: Path, *, stdin: int, stdout: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a group of its own; end all of it afterwards."""
    with output.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own words, without a shell
            list(words), stdin=stdin, stdout=log if stdout is None else stdout, stderr=log,
            start_new_session=True, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number, patience_s in ((signal.SIGTERM, 2.0), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            continue


def _readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], PATIENCE_S)[0])
