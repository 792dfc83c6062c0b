"""``lbgen status``."""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lbgen.cli.inputs import load_fleet, seconds, usable_fleet
from lbgen.cli.operate.sockets import places, socket_option
from lbgen.cli.operate.status_text import text_of, value_of
from lbgen.cli.options import Command, fleet_options, format_option, option
from lbgen.cli.signals import end_as_ctrl_c_does
from lbgen.deploy.runtime.watched_files import watchers
from lbgen.deploy.status import (
    NoStatus,
    RuntimeStatus,
    WatchedStatus,
    counted_status,
    runtime_status,
    watched_status,
)
from lbgen.problems import LbgenError
from lbgen.render import render
from lbgen.secret_values import RealSecrets, StandInSecrets
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet

    from lbgen.cli.console import Console
    from lbgen.cli.options import FleetRequest
    from lbgen.deploy.runtime.watched_files import Watcher
    from lbgen.deploy.status import CountedStatus
    from lbgen.model import Fleet, Metrics
    from lbgen.targets.inventory import Inventory

    Answer = RuntimeStatus | WatchedStatus | CountedStatus | NoStatus

_REDRAW = "\x1b[H\x1b[J"
"""To the upper left, and clear from there."""


class Wanted(NamedTuple):
    """What the options of one call ask for."""

    sockets: tuple[str, ...]
    watch: bool
    interval: str
    form: str
    exit_code: bool
    named: AbstractSet[str] = frozenset()
    """Targets that the command line asks for, by name or by a socket."""


@click.command(cls=Command)
@fleet_options
@socket_option
@option("--watch", is_flag=True, help="Refresh until Ctrl-C.")
@option("--interval", default="2s", show_default=True, help="Refresh interval of --watch.")
@format_option(
    "Output for people (text) or for programs (json; with --watch one JSON object per line).", name="form"
)
@option(
    "--exit-code", is_flag=True, help="Exit 1 if servers differ from the fleet or are not health-checked."
)
@click.pass_obj
def command(console: Console, /, request: FleetRequest, **options: Any) -> int:  # noqa: ANN401 - click's
    """Show the running servers: state, requests in flight, queue, rate, last check.

    HAProxy is asked over its runtime socket, Envoy on its admin port. Differences between the running servers
    and the fleet are reported. Open-source NGINX reports only its total connections and requests, on the
    metrics listener. Exit code 2: a balancer does not answer. If the fleet file names several targets and one
    of them runs, the others need not run.
    """
    wanted = Wanted(**options)
    interval = _interval(wanted.interval)
    fleet = usable_fleet(console, load_fleet(console, request), request)
    ask = _question(fleet, request, wanted)
    by_socket = {_with_sockets(fleet)} if wanted.sockets else set[str]()
    wanted = wanted._replace(named=by_socket.union(request.targets))
    if wanted.watch:
        return _watch(console, ask, wanted, interval)
    answers = list(ask())
    _show(console, answers, wanted)
    return _code(answers, wanted)


def _question(fleet: Fleet, request: FleetRequest, wanted: Wanted) -> Callable[[], Iterator[Answer]]:
    """Return what asks every balancer; raises `LbgenError` when there is none to ask."""
    sockets = places(fleet, wanted.sockets)
    asked = _asked(fleet, request, sockets, only=bool(wanted.sockets))
    if not asked:
        ways = [
            *(f"{one.title} reports its servers on the runtime socket (--socket, or"
              f" targets.{name}.runtime_socket in the fleet)"
              for name, one in TARGETS.items() if one.abilities.runtime_socket),
            *(f"{one.title} on the fleet's metrics listener" for one in TARGETS.values()
              if one.abilities.metrics_status),
        ]  # fmt: skip
        raise LbgenError(f"no source of status: {', '.join(ways)}")
    return lambda: (answer for one in asked for answer in one())


def _asked(
    fleet: Fleet, request: FleetRequest, sockets: tuple[str, ...], *, only: bool
) -> list[Callable[[], Iterator[Answer]]]:
    """Return what asks each kind of balancer; raises `click.UsageError` for sockets of none of them.

    `only`: the sockets were named, and of what is seen by other ways nothing but metrics is asked for.
    """
    asked: list[Callable[[], Iterator[Answer]]] = []
    if sockets:
        target = _with_sockets(fleet)
        file = _expected(fleet, target)
        asked.append(lambda: (runtime_status(target, place, file) for place in sockets))
    if not only:
        asked += [partial(_watched, watcher, _expected(fleet, watcher.target)) for watcher in watchers(fleet)]
    for name in (one.name for one in fleet.targets if TARGETS[one.name].abilities.metrics_status):
        written = name in request.targets or fleet.origins.written(("targets", name))
        if fleet.metrics is not None and (written or not sockets):
            asked.append(partial(_counted, name, fleet.metrics))
    return asked


def _expected(fleet: Fleet, target: str) -> Inventory:
    """Return what a target's files say of servers when the fleet is in effect."""
    alone = fleet._replace(targets=(fleet.target(target),))
    files = render(alone, target, secrets=StandInSecrets())
    watches = TARGETS[target].abilities.watches
    texts = [file.text for file in files if not file.aside] if watches else [files[0].text]
    return TARGETS[target].read("\n---\n".join(texts))


def _watched(watcher: Watcher, file: Inventory) -> Iterator[Answer]:
    yield watched_status(watcher, file)


def _with_sockets(fleet: Fleet) -> str:
    """Return the target whose sockets are asked; raises `click.UsageError` when there is none."""
    for one in fleet.targets:
        if TARGETS[one.name].abilities.runtime_socket:
            return one.name
    able = next(one for one in TARGETS.values() if one.abilities.runtime_socket)
    raise click.UsageError(f"--socket is only for {able.title}, which is not among the targets (-t)")


def _counted(target: str, metrics: Metrics) -> Iterator[Answer]:
    yield counted_status(target, metrics, RealSecrets())


def _missed(answers: list[Answer], wanted: Wanted) -> list[NoStatus]:
    """Return the balancers that should have answered.

    Where one target of several runs, the others are no fault, unless the command line asks for them.
    """
    run = {answer.target for answer in answers if not isinstance(answer, NoStatus)}
    silent = [answer for answer in answers if isinstance(answer, NoStatus)]
    return [answer for answer in silent if not run or answer.target in run | wanted.named]


def _show(console: Console, answers: list[Answer], wanted: Wanted) -> None:
    if wanted.form == "json":
        value = {"balancers": [value_of(answer) for answer in answers]}
        console.result(json.dumps(value, indent=None if wanted.watch else 2, ensure_ascii=False))
        return
    shown = [text_of(answer) for answer in answers if not isinstance(answer, NoStatus)]
    if shown:
        console.result("\n".join(shown))
    missed = _missed(answers, wanted)
    for answer in answers:
        if answer in missed:
            console.error(answer.error)
        elif isinstance(answer, NoStatus):
            console.note(f"{answer.target} is not running here ({answer.error})")


def _watch(console: Console, ask: Callable[[], Iterator[Answer]], wanted: Wanted, interval: float) -> int:
    """Show it until Ctrl-C or SIGTERM, which are its proper end."""
    end_as_ctrl_c_does()
    redraw = wanted.form == "text" and sys.stdout.isatty()
    try:
        while True:
            answers = list(ask())
            if redraw:
                sys.stdout.write(_REDRAW)
            _show(console, answers, wanted)
            sys.stdout.flush()
            time.sleep(interval)
    except KeyboardInterrupt:
        return 0


def _code(answers: list[Answer], wanted: Wanted) -> int:
    if _missed(answers, wanted):
        return 2
    differ = any(
        (isinstance(answer, RuntimeStatus) and (answer.differences or answer.unchecked))
        or (isinstance(answer, WatchedStatus) and answer.differences)
        for answer in answers
    )
    return 1 if differ and wanted.exit_code else 0


def _interval(text: str) -> float:
    interval = seconds("--interval", text)
    if interval < 0.1:
        raise click.UsageError("--interval must be at least 100ms")
    return interval
