"""``lbgen undrain``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from lbgen.cli.inputs import load_fleet, usable_fleet
from lbgen.cli.operate.sockets import balancers_for, edit, named_server, server_argument, socket_option
from lbgen.cli.options import Command, fleet_options, format_option
from lbgen.model import State
from lbgen.problems import LbgenError

if TYPE_CHECKING:
    from lbgen.cli.console import Console
    from lbgen.cli.operate.sockets import Named
    from lbgen.cli.options import FleetRequest
    from lbgen.deploy.drain import BySocket
    from lbgen.deploy.runtime.watched_files import Watcher
    from lbgen.model import Fleet


@click.command(cls=Command)
@fleet_options
@server_argument
@socket_option
@format_option("Output for people (text) or for programs (json).", name="form")
@click.pass_obj
def command(
    console: Console, /, request: FleetRequest, which: str, sockets: tuple[str, ...], form: str
) -> int:
    """Return a drained server to rotation at run time.

    Exit code 2: a balancer does not answer; the others were changed.
    """
    fleet = usable_fleet(console, load_fleet(console, request), request)
    named = named_server(fleet, which)
    balancers = balancers_for(fleet, sockets, named, "up")
    _refuse_what_the_fleet_says(fleet, named)
    found = [_put_back(one, named) for one in balancers]
    for one in found:
        if one["error"]:
            console.error(str(one["error"]))
        elif form == "text":
            console.result(_words(one, named, alone=len(found) == 1))
    if form == "json":
        value = {"pool": named.pool.name, "server": named.name, "balancers": found}
        console.result(json.dumps(value, indent=2, ensure_ascii=False))
    return 2 if any(one["error"] for one in found) else 0


def _refuse_what_the_fleet_says(fleet: Fleet, named: Named) -> None:
    if named.server and named.server.state is not State.UP:
        raise LbgenError(
            f"{named}: the fleet file has state: {named.server.state}, so the server stays out of"
            f" rotation; change it and apply:\n{edit(fleet, named, 'up')}"
        )


def _put_back(balancer: BySocket | Watcher, named: Named) -> dict[str, str | None]:
    try:
        status, check = balancer.put_back(named.pool.name, named.name)
    except LbgenError as error:
        return {"socket": balancer.place, "status": None, "check": None, "error": str(error)}
    return {"socket": balancer.place, "status": status, "check": check or None, "error": None}


def _words(one: dict[str, str | None], named: Named, *, alone: bool) -> str:
    where = "" if alone else f"{one['socket']}: "
    if str(one["status"]).startswith("DOWN"):
        return (
            f"{where}{named}: no longer drained, but its health check fails ({one['check']}): it gets no"
            " requests"
        )
    return f"{where}{named}: back in rotation"
