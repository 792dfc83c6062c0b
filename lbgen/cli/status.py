"""``lbgen status``."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lbgen.cli.inputs import load_fleet, seconds, usable_fleet
from lbgen.cli.options import Command, fleet_options, format_option, option
from lbgen.cli.signals import end_as_ctrl_c_does
from lbgen.cli.sockets import places, socket_option
from lbgen.cli.status_text import text_of, value_of
from lbgen.deploy.inventory import read_haproxy
from lbgen.deploy.status import HaproxyStatus, NoStatus, haproxy_status, nginx_status
from lbgen.problems import LbgenError
from lbgen.render import render
from lbgen.secret_values import RealSecrets, StandInSecrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.cli.console import Console
    from lbgen.cli.options import FleetRequest
    from lbgen.deploy.status import NginxStatus
    from lbgen.model import Fleet

    Answer = HaproxyStatus | NginxStatus | NoStatus

_REDRAW = "\x1b[H\x1b[J"
"""To the upper left, and clear from there."""


class Wanted(NamedTuple):
    """What the options of one call ask for."""

    sockets: tuple[str, ...]
    watch: bool
    interval: str
    form: str
    exit_code: bool


@click.command(cls=Command)
@fleet_options
@socket_option
@option("--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@option("--interval", default="2s", show_default=True, help="Time between two looks of --watch.")
@format_option("For people or for programs; with --watch one JSON text a line.", name="form")
@option(
    "--exit-code", is_flag=True, help="Exit 1 when servers run otherwise than the fleet says, or unchecked."
)
@click.pass_obj
def command(console: Console, /, request: FleetRequest, **options: Any) -> int:  # noqa: ANN401 - click's
    """Show what runs now: each server's state, requests in flight, queue, rate and last check.

    HAProxy tells it over its runtime socket, and where its servers differ from the fleet, or are not checked,
    this is said. Open-source NGINX tells its connections and requests alone, by the metrics
    listener. Exit 2: a balancer does not answer.
    """
    wanted = Wanted(**options)
    interval = _interval(wanted.interval)
    fleet = usable_fleet(console, load_fleet(console, request), request)
    ask = _question(fleet, request, wanted)
    if wanted.watch:
        return _watch(console, ask, wanted, interval)
    answers = list(ask())
    _show(console, answers, wanted)
    return _code(answers, wanted)


def _question(fleet: Fleet, request: FleetRequest, wanted: Wanted) -> Callable[[], Iterator[Answer]]:
    """Return what asks every balancer; raises `LbgenError` when there is none to ask."""
    sockets = places(fleet, wanted.sockets)
    names = {target.name for target in fleet.targets}
    if sockets and "haproxy" not in names:
        raise click.UsageError("--socket is HAProxy's, and haproxy is not among the targets (-t)")
    written = "nginx" in request.targets or fleet.origins.written(("targets", "nginx"))
    nginx = fleet.metrics if "nginx" in names and (written or not sockets) else None
    if not sockets and nginx is None:
        raise LbgenError(
            "there is nothing to ask: HAProxy tells what runs on its runtime socket (--socket, or "
            "targets.haproxy.runtime_socket in the fleet), NGINX on the fleet's metrics listener"
        )
    file = None
    if sockets:
        haproxy = fleet._replace(
            targets=tuple(target for target in fleet.targets if target.name == "haproxy")
        )
        file = read_haproxy(render(haproxy, "haproxy", secrets=StandInSecrets())[0].text)

    def ask() -> Iterator[Answer]:
        if file is not None:
            yield from (haproxy_status(place, file) for place in sockets)
        if nginx is not None:
            yield nginx_status(nginx, RealSecrets())

    return ask


def _show(console: Console, answers: list[Answer], wanted: Wanted) -> None:
    if wanted.form == "json":
        value = {"balancers": [value_of(answer) for answer in answers]}
        console.result(json.dumps(value, indent=None if wanted.watch else 2, ensure_ascii=False))
        return
    shown = [text_of(answer) for answer in answers if not isinstance(answer, NoStatus)]
    if shown:
        console.result("\n".join(shown))
    for answer in answers:
        if isinstance(answer, NoStatus):
            console.error(answer.error)


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
    if any(isinstance(answer, NoStatus) for answer in answers):
        return 2
    differ = any(
        isinstance(answer, HaproxyStatus) and (answer.differences or answer.unchecked) for answer in answers
    )
    return 1 if differ and wanted.exit_code else 0


def _interval(text: str) -> float:
    interval = seconds("--interval", text)
    if interval < 0.1:
        raise click.UsageError("--interval: is 100ms or more")
    return interval
