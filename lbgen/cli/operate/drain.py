"""``lbgen drain``."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING

import click

from lbgen.cli.inputs import load_fleet, seconds, usable_fleet
from lbgen.cli.operate.sockets import balancers_for, named_server, server_argument, socket_option
from lbgen.cli.options import Command, fleet_options, format_option, option
from lbgen.cli.signals import end_as_ctrl_c_does
from lbgen.deploy.drain import Outcome, drain
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from lbgen.cli.console import Console
    from lbgen.cli.operate.sockets import Named
    from lbgen.cli.options import FleetRequest
    from lbgen.model import Fleet, Pool


@click.command(cls=Command)
@fleet_options
@server_argument
@socket_option
@option(
    "--timeout", default="15m", show_default=True, help="How long to wait for the last request to finish."
)
@format_option("Output for people (text) or for programs (json).", name="form")
@click.pass_obj
def command(  # noqa: PLR0913, PLR0917 - one parameter an option
    console: Console,
    /,
    request: FleetRequest,
    which: str,
    sockets: tuple[str, ...],
    timeout: str,
    form: str,
) -> int:
    """Take a server out of rotation at run time and wait for its last request.

    HAProxy is told over its runtime socket, Envoy by the file of the pool's servers, which it watches. The
    server stays out until 'lbgen undrain', also through 'lbgen apply'; a reload by other means or a restart
    of HAProxy ends the drain. Exit code 2: the timeout expired or a balancer does not answer; the server
    remains drained where the command succeeded.
    """
    fleet = usable_fleet(console, load_fleet(console, request), request)
    named = named_server(fleet, which)
    balancers = balancers_for(fleet, sockets, named, "drain")
    progress = Progress(console, named)
    end_as_ctrl_c_does()
    try:
        outcome = drain(
            balancers,
            named.pool.name,
            named.name,
            bound=_is_bound(fleet, named.pool),
            timeout_s=seconds("--timeout", timeout),
            report=progress.show,
        )
    except KeyboardInterrupt:
        progress.end()
        console.note(f"{named} stays drained; 'lbgen undrain' puts it back into rotation")
        raise
    progress.end()
    _say_what_is_not_seen(console, fleet, outcome)
    return _told(console, named, outcome, form)


def _is_bound(fleet: Fleet, pool: Pool) -> bool:
    """Tell whether requests of this pool are bound to servers by what the balancer learned."""
    return any(TARGETS[one.name].behaviour.learns(fleet, pool) for one in fleet.targets)


def _say_what_is_not_seen(console: Console, fleet: Fleet, outcome: Outcome) -> None:
    """Say where a process from before a reload may still finish requests: no socket tells of them."""
    limits = [
        one.drain_timeout / 1_000 for one in fleet.targets if TARGETS[one.name].abilities.runtime_socket
    ]
    for one in outcome.seen:
        age = math.inf if one.uptime_s is None else one.uptime_s + outcome.waited_s
        if not one.error and age < max(limits, default=0):
            console.note(
                f"{one.place}: HAProxy was started or reloaded {age:.0f} s ago: requests that an older"
                " process is still finishing are not counted"
            )


def _told(console: Console, named: Named, outcome: Outcome, form: str) -> int:
    for one in outcome.silent:
        console.error(one.error)
    if outcome.in_flight:
        console.error(
            f"{named} still has {_requests(outcome.in_flight)} in flight after {outcome.waited_s:.0f} s;"
            " it stays drained; 'lbgen undrain' puts it back into rotation"
        )
    done = not outcome.in_flight and not outcome.silent
    if form == "json":
        console.result(_json(named, outcome, done=done))
    elif done:
        console.result(f"{named}: drained, no request in flight after {outcome.waited_s:.1f} s")
    return 0 if done else 2


def _json(named: Named, outcome: Outcome, *, done: bool) -> str:
    value = {
        "pool": named.pool.name,
        "server": named.name,
        "drained": done,
        "in_flight": outcome.in_flight,
        "waited_s": round(outcome.waited_s, 3),
        "balancers": [
            {
                "socket": one.place,
                "in_flight": one.in_flight,
                "uptime_s": one.uptime_s,
                "error": one.error or None,
            }
            for one in outcome.seen
        ],
    }
    return json.dumps(value, indent=2, ensure_ascii=False)


class Progress:
    """The requests in flight, on standard error: one line, rewritten, on a terminal, else a line a change."""

    def __init__(self, console: Console, named: Named) -> None:
        self._console = console
        self._named = named
        self._terminal = sys.stderr.isatty()
        self._last = ""
        self._warned = False

    def show(self, outcome: Outcome) -> None:
        """Say how many requests are in flight, where that has changed; first, whether nobody else serves."""
        if not self._warned and any(one.last for one in outcome.seen):
            self._warned = True
            self._console.note(
                f"no other server of {self._named.pool.name} is up: the pool cannot serve requests now"
            )
        line = f"{self._named}: {_requests(outcome.in_flight)} in flight"
        if self._terminal:
            line += f", waiting for {outcome.waited_s:.0f} s"
        if self._console.quiet or line == self._last or outcome.silent == outcome.seen:
            return
        self._last = line
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()
        else:
            self._console.note(line)

    def end(self) -> None:
        """Leave the rewritten line as it is."""
        if self._terminal and self._last:
            sys.stderr.write("\n")
            sys.stderr.flush()


def _requests(number: int) -> str:
    return "1 request" if number == 1 else f"{number} requests"
