"""What the options of `lbgen simulate` stand for: the load, incidents, a measurement."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from lbgen.cli.inputs import seconds
from lbgen.cli.options import nearest
from lbgen.simulate.answers.study import is_closed
from lbgen.simulate.load.closed import Closed
from lbgen.simulate.load.logs.replay import Log
from lbgen.simulate.load.named import workload
from lbgen.simulate.load.traces import Trace
from lbgen.simulate.servers.setup import WHAT, Incident
from lbgen.simulate.servers.step_times.calibration import read_calibrations
from lbgen.simulate.servers.step_times.profiles import DEFAULT_PROFILE, NAMES
from lbgen.units import parse_duration

if TYPE_CHECKING:
    from lbgen.cli.console import Console
    from lbgen.model import Pool
    from lbgen.simulate.load.workload import Workload
    from lbgen.simulate.servers.step_times.calibration import Calibration


class Wanted(NamedTuple):
    """What the options of one call ask for."""

    pool: str | None
    workload: str
    clients: tuple[int, ...]
    think: str | None
    strategies: tuple[str, ...]
    peers: tuple[str, ...]
    rate: float | None
    loads: tuple[float, ...]
    requests: int | None
    seeds: tuple[int, ...]
    profiles: tuple[str, ...]
    calibrate: tuple[str, ...]
    slots: int | None
    incidents: tuple[str, ...]
    find_capacity: str | None
    report: str | None
    executor: str | None
    format: str
    skip_bad_rows: bool


def calibration_of(console: Console, names: tuple[str, ...]) -> Calibration | None:
    """Return what `--calibrate` measured, and say what it cannot tell; raises `LbgenError`."""
    if not names:
        return None
    found = read_calibrations(map(Path, names))
    console.note(
        f"calibrated from {len(found.points)} measurement{'s' * (len(found.points) > 1)} of one server; "
        "averages do not tell slots, the KV cache and its cost: these stay the profile's"
    )
    return found


def workload_of(console: Console, wanted: Wanted, pool: str) -> Workload:
    """Return the load that the options ask for; raises `UsageError` for what makes no sense together."""
    load = workload(wanted.workload, skip_bad_rows=wanted.skip_bad_rows, pool=pool)
    note_trace(console, load)
    if wanted.think and not wanted.clients:
        raise click.UsageError("--think is how long --clients think: say how many there are")
    if wanted.clients and not is_closed(load):
        load = Closed(load, wanted.clients[0], seconds("--think", wanted.think or "0s"))
    elif wanted.clients:
        raise click.UsageError(f"--clients: {wanted.workload} says itself how many there are")
    for option_name in ("rate", "loads", "find_capacity"):
        if is_closed(load) and getattr(wanted, option_name):
            name = option_name.rstrip("s").replace("_", "-")
            raise click.UsageError(f"--{name} does not apply to clients that wait for responses")
    return load


def note_trace(console: Console, load: Workload) -> None:
    """Say what was done to a trace when it was read, and what of a log was assumed."""
    if isinstance(load, Log):
        for line in load.said:
            console.note(f"{load.name}: {line}")
    if isinstance(load, Trace):
        if load.skipped:
            console.note(f"{load.name}: {load.skipped} bad rows left out")
        if load.jittered:
            console.note(f"{load.name}: its times sit on a coarse grid and are spread evenly over its steps")


def model_note() -> str:
    """Return what the user should know where nothing said how fast the servers are."""
    others = ", ".join(name for name in NAMES if name != DEFAULT_PROFILE)
    model = f"the servers are the model '{DEFAULT_PROFILE}', not your GPUs"
    return f"note: {model}: --profile names others ({others})"


def incident_of(text: str, pool: Pool) -> Incident:
    """Return what `AT:SERVER:WHAT` stands for; raises `UsageError`."""
    at, _, rest = text.partition(":")
    server, _, what = rest.rpartition(":")
    names = [one.name for one in pool.servers]
    if server not in names:
        raise click.UsageError(f"--incident {text}: '{server}' is not a server: {nearest(server, names)}")
    if what not in WHAT:
        raise click.UsageError(f"--incident {text}: write AT:SERVER:WHAT, WHAT being {', '.join(WHAT)}")
    try:
        return Incident(parse_duration(at) / 1000, server, what)
    except ValueError as error:
        raise click.UsageError(f"--incident {text}: {error}") from None
