"""Reading what the user named: fleet files, standard input, and what is written on the command line."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lbgen.cli.options import nearest
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.problems import FleetError, LbgenError
from lbgen.reading import MOST, opened, readable
from lbgen.targets.registry import TARGETS
from lbgen.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from lbgen.cli.console import Console
    from lbgen.cli.options import FleetRequest
    from lbgen.fleet.load import Loaded
    from lbgen.model import Fleet, TargetSettings

STANDARD_INPUT = "<stdin>"
"""No fleet is larger: 100,000 servers are 8 MB. Reading ``/dev/zero`` has to end somewhere."""


def load_fleet(console: Console, request: FleetRequest) -> Loaded:
    """Read and check a fleet, errors and warnings included; `console` learns the texts for its carets.

    Raises `LbgenError` for what cannot be read at all.
    """
    console.sources = read_sources(request.names)
    versions = target_versions_of(request.target_versions, request.targets)
    return load(console.sources, sets=request.sets, targets=request.targets, versions=versions)


def usable_fleet(console: Console, loaded: Loaded, request: FleetRequest, *, each: bool = False) -> Fleet:
    """Return the fleet as the asked-for balancer sees it; its warnings are one line, or one for `each`.

    `lbgen check` and ``-v`` print them whole. Raises `FleetError` with every problem when it has errors.
    """
    if loaded.fleet is None or any(problem.is_error for problem in loaded.problems):
        raise FleetError(loaded.problems)
    if console.verbose:
        console.problems(loaded.problems)
    elif loaded.problems:
        console.briefly(loaded.problems, _details(request), each=each)
    return for_balancer(loaded.fleet, request.balancer)


def _details(request: FleetRequest) -> str:
    """Return how to see the problems of a fleet whole."""
    if "-" in request.names:
        return "use -v"
    words = [
        *request.names,
        *(word for name in request.targets for word in ("-t", name)),
        *(word for text in request.sets for word in ("--set", text)),
        *(word for text in request.target_versions for word in ("--target-version", text)),
    ]
    return f"run 'lbgen check {shlex.join(words)}'"


def only_target(fleet: Fleet, work: str) -> TargetSettings:
    """Return the one target that this work is for; raises `click.UsageError` when there are several."""
    if len(fleet.targets) != 1:
        raise click.UsageError(f"{work} is for one target: name it with -t")
    return fleet.targets[0]


def read_sources(names: Sequence[str]) -> list[Source]:
    """Return the texts of fleet files; ``-`` is standard input, once."""
    if list(names).count("-") > 1:
        raise click.UsageError("'-' stands for standard input, which can be read only once")
    return [_read_standard_input() if name == "-" else _read_file(name) for name in names]


def target_versions_of(texts: Sequence[str], targets: Sequence[str]) -> dict[str, str]:
    """Return the version for each target from ``VERSION`` (of the only target) or ``TARGET=VERSION``."""
    versions: dict[str, str] = {}
    for text in texts:
        name, equals, version = text.rpartition("=")
        if not equals:
            if len(targets) != 1:
                raise click.UsageError(
                    f"--target-version {text}: say which target it is for, with one -t or as nginx={text}"
                )
            name = targets[0]
        if name not in TARGETS:
            advice = nearest(name, TARGETS)
            raise click.UsageError(f"--target-version {text}: '{name}' is not a target: {advice}")
        versions[name] = version
    return versions


def _read_standard_input() -> Source:
    if sys.stdin is None:  # closed by the shell: <&-
        raise LbgenError("standard input is closed: '-' reads the fleet from there")
    text = _decoded(STANDARD_INPUT, _limited(sys.stdin.buffer, STANDARD_INPUT))
    if not text.strip():
        raise LbgenError("standard input is empty: '-' reads the fleet from there")
    return Source(STANDARD_INPUT, text)


def _read_file(name: str) -> Source:
    with readable(name), opened(name, pipe=True) as stream:
        return Source(name, _decoded(name, _limited(stream, name)))


def _limited(stream: BinaryIO, name: str) -> bytes:
    data = stream.read(MOST + 1)
    if len(data) > MOST:
        raise LbgenError(f"{name}: is larger than 256 MiB, which no fleet file is")
    return data


def _decoded(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise LbgenError(f"{name}:{line}: is not UTF-8 text: byte 0x{data[error.start]:02x}") from None


def for_balancer(fleet: Fleet, name: str | None) -> Fleet:
    """Return the fleet as one of its balancers sees it; raises `LbgenError` for a name it does not have."""
    if name is None:
        return fleet
    if name not in fleet.balancers.peers:
        advice = nearest(name, fleet.balancers.peers) if fleet.balancers.peers else "it names none"
        raise LbgenError(f"--balancer {name}: is not among the fleet's balancers.peers: {advice}")
    return fleet._replace(balancers=fleet.balancers._replace(own=name))


def templates_folder(name: str | None) -> Path | None:
    """Return the folder that ``--templates`` names; raises `LbgenError` when there is none."""
    if name is None:
        return None
    folder = Path(name)
    if not folder.is_dir():
        raise LbgenError(f"{name}: is not a folder of templates")
    return folder


def seconds(name: str, text: str) -> float:
    """Return what an option says as a duration; raises `click.UsageError`, which names the option."""
    try:
        return parse_duration(text) / 1_000
    except ValueError as error:
        raise click.UsageError(f"{name}: {error}") from None
