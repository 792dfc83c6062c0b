"""Trials with programs of this machine: loopback ports, no Docker, no root."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lbgen.checker.stand_ins import stood_in
from lbgen.checker.surroundings import Surroundings
from lbgen.lab import owners
from lbgen.lab.problems import RigError
from lbgen.lab.trial.stage.certificates import Bundle
from lbgen.lab.trial.stage.mapping import Standing, binds_of, within
from lbgen.lab.trial.stage.ready import Asked, Serving, ready, write
from lbgen.lab.trial.stage.running import LAST_WORDS, LOOPBACK, PATIENCE_S, free, kept, process, wait_for
from lbgen.lab.trial.stage.watching import agent
from lbgen.runtimes.process import find_local
from lbgen.strategies.kv_cache import kv_of
from lbgen.targets.registry import TARGETS
from lbgen.units import Address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lbgen.lab.trial.beside import Beside
    from lbgen.lab.trial.stage.mapping import Way
    from lbgen.model import Fleet, Pool
    from lbgen.runtimes.process import LocalProgram


class Processes:
    """Mock GPU servers and balancers as processes of our own, ended with it; a context manager."""

    name = "process"

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._folder = Path(self._stack.enter_context(owners.make_folder()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def mocks(self, settings: Sequence[Mapping[str, object]], pool: Pool) -> dict[str, Standing]:
        """Start mock GPU servers for a pool; return where they are by name. Raises `RigError`."""
        self._bundle = Bundle.make(self._folder, pool)
        certificate = str(self._bundle.path) if pool.tls else ""
        words = [sys.executable, "-m", "lbgen.lab.trial.stage.farm", certificate, *map(json.dumps, settings)]
        output = self._folder / "mocks.log"
        running = self._stack.enter_context(process(words, output, stdout=subprocess.PIPE))
        assert running.stdout is not None  # noqa: S101 - it is a pipe
        line = running.stdout.readline() if _readable(running.stdout.fileno()) else b""
        if not line:
            raise RigError(f"the mock GPU servers did not start: {output.read_text()[-LAST_WORDS:]}")
        names = [str(one["name"]) for one in settings]
        return {
            name: Standing(Address(LOOPBACK, secure or plain), Address(LOOPBACK, plain))
            for name, (plain, secure) in zip(names, json.loads(line), strict=True)
        }

    @contextmanager
    def balancer(self, asked: Asked, way: Way) -> Iterator[Serving]:
        """Run a balancer; give where it serves, and its files. Raises `RigError`."""
        program = find_local(TARGETS[asked.target].program.name)
        if program is None:
            raise RigError(f"there is no program {asked.target} on this machine: install it")
        with ExitStack() as stack:
            name = stack.enter_context(
                tempfile.TemporaryDirectory(prefix=f"{asked.target}-", dir=self._folder)
            )
            folder = Path(name)
            binds = binds_of(asked.fleet)
            listeners = dict(zip(binds, free(len(binds)), strict=True))
            if kv_of(asked.pool):
                answering = stack.enter_context(agent(asked.pool, asked.servers, folder))
                asked = asked._replace(agent=answering)
            made = ready(asked, listeners, self._bundle, partial(_stood_in, asked, folder, program))
            write(made.files, folder)
            output, main = folder / "output.log", folder / made.files[0].path
            words = [program.place, *TARGETS[asked.target].program.in_foreground(main)]
            running = stack.enter_context(kept(words, output))
            address = listeners[way.listener.binds[0]]
            wait_for(address, running, output, f"{asked.target} does not run with what was rendered")
            yield Serving.at(address, way.listener, self._bundle, made)

    @contextmanager
    def beside(self, asked: Asked, found: Beside) -> Iterator[Serving]:
        """Run a file that lbgen did not write; give where it serves. Raises `RigError`."""
        target = TARGETS[asked.target]
        program = find_local(target.program.name)
        if program is None:
            raise RigError(f"there is no program {asked.target} on this machine: install it")
        with ExitStack() as stack:
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{asked.target}-", dir=self._folder))
            )
            binds = dict(zip(found.foreign.binds, free(len(found.foreign.binds)), strict=True))
            there = found.elsewhere(asked.servers, binds, str(folder), str(self._bundle.path))._replace(
                user="root" if os.geteuid() == 0 else "",
                ask=lambda arguments: program.run(arguments).output,
            )
            moved = found.foreign.moved(there)
            output, main = folder / "output.log", folder / target.main_file
            main.write_text(moved.text, encoding="utf-8", errors="surrogateescape")
            words = [program.place, *target.program.in_foreground(main)]
            running = stack.enter_context(kept(words, output))
            address = binds[found.entrance.bind]
            try:
                wait_for(address, running, output, f"{target.name} does not run with {found.file}")
            except RigError as error:
                raise RigError(moved.located(str(error), target.main_file)) from None
            yield Serving.beside(address, asked, found, self._bundle, moved.changes)


def _stood_in(asked: Asked, folder: Path, program: LocalProgram, fleet: Fleet) -> Fleet:
    """Return the fleet as this machine can run it within a folder."""
    directory = fleet.target(asked.target).directory
    around = Surroundings(folder, directory, in_container=False, resolve=False)
    moved = stood_in(fleet, asked.target, around, program)
    # Some programs want the full path of a certificate that the servers ask for.
    shown = any(pool.tls and pool.tls.certificate for pool in fleet.pools)
    return within(moved, str(folder), str(folder) if shown else None)


def _readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], PATIENCE_S)[0])
