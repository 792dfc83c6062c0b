"""``lbgen agent``."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

import click

from lbgen.agent.weights import Pool as Gauged
from lbgen.cli.inputs import load_fleet, usable_fleet
from lbgen.cli.options import Command, fleet_options, option
from lbgen.engines import ENGINES
from lbgen.fleet.shares import shared_out
from lbgen.problems import LbgenError
from lbgen.reading import opened
from lbgen.strategies.kv_cache import kv_of
from lbgen.targets.registry import TARGETS
from lbgen.units import Address, parse_address, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.agent.watch import TlsWords, Watched
    from lbgen.cli.console import Console
    from lbgen.cli.options import FleetRequest
    from lbgen.model import Fleet, Pool, ServerTls
    from lbgen.strategies.kv_cache import KvParameters


@click.command(cls=Command)
@fleet_options
@option(
    "--listen",
    metavar="ADDRESS",
    help="Address that HAProxy connects to. Default: 127.0.0.1 and the strategy's agent_port.",
)
@option("--status", metavar="ADDRESS", help="Address on which the agent serves its own /metrics and /health.")
@option("--interval", default="1s", show_default=True, help="Time between two readings of a server.")
@click.pass_obj
def command(console: Console, /, request: FleetRequest, **options: Any) -> None:  # noqa: ANN401 - click's
    """Read engine metrics and answer HAProxy's agent checks with weights and caps.

    For pools with the strategy kv_cache: tells HAProxy the weight of each server and how many requests it can
    take; further requests wait in HAProxy. Runs until SIGTERM or Ctrl-C.
    """
    asking = tuple(name for name, target in TARGETS.items() if target.abilities.agent_checks)
    request = request._replace(targets=asking)
    _serve(console, usable_fleet(console, load_fleet(console, request), request), options)


def _serve(console: Console, fleet: Fleet, options: dict[str, Any]) -> None:
    try:
        from lbgen.agent.service import run  # noqa: PLC0415 - aiohttp is an extra
        from lbgen.agent.watch import Agent  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise LbgenError(f"lbgen agent needs the package {error.name}: pip install 'lbgen[agent]'") from None
    asking = [(pool, by) for pool in shared_out(fleet).pools if (by := kv_of(pool))]
    if not asking:
        raise LbgenError("no pool of this fleet has the strategy kv_cache: the agent has nothing to do")
    watched = tuple(one for pool, _ in asking for one in _watched(pool))
    checks = _address(options["listen"], "--listen") or Address("127.0.0.1", _port(by for _, by in asking))
    status = _address(options["status"], "--status")
    gauged = {
        pool.name: Gauged(
            tuple(server.name for server in pool.servers), by.drain_above, fleet.balancers.instances
        )
        for pool, by in asking
    }
    agent = Agent(watched, gauged, _interval(options["interval"]))

    def started() -> None:
        console.note(f"lbgen agent: watching {len(watched)} servers, listening on {checks}")

    try:
        asyncio.run(run(agent, checks, status, started))
    except OSError as error:
        raise LbgenError(
            f"cannot listen on {checks}{f' or {status}' if status else ''}: {error.strerror}"
        ) from None


def _watched(pool: Pool) -> list[Watched]:
    from lbgen.agent.watch import Watched  # noqa: PLC0415 - aiohttp is an extra

    metrics = ENGINES[pool.engine].metrics
    if metrics is None or not metrics.running:
        raise LbgenError(
            f"pool {pool.name}: {ENGINES[pool.engine].title} does not report the number of requests in flight"
        )
    scheme = "https" if pool.tls else "http"
    tls = _tls(pool.tls) if pool.tls else None
    return [
        Watched(
            pool.name,
            server.name,
            f"{scheme}://{server.address._replace(port=metrics.port or server.address.port)}{metrics.path}",
            metrics,
            pool.cap(server),
            tls,
        )
        for server in pool.servers
    ]


def _tls(wanted: ServerTls) -> TlsWords:
    """Return how the servers' certificates are checked, as HAProxy does; raises `LbgenError`."""
    try:
        if wanted.ca:
            opened(wanted.ca).close()  # Python's TLS would wait for a pipe
        context = ssl.create_default_context(cafile=wanted.ca) if wanted.verify else False
    except OSError as error:
        raise LbgenError(f"{wanted.ca}: cannot be read as certificates: {error}") from None
    return {"ssl": context, "server_hostname": wanted.server_name}


def _port(chosen: Iterable[KvParameters]) -> int:
    ports = {by.agent_port for by in chosen}
    if len(ports) > 1:
        raise LbgenError("the pools have different values of agent_port: an agent listens on one port")
    return ports.pop()


def _address(text: str | None, name: str) -> Address | None:
    try:
        return parse_address(text) if text else None
    except ValueError as error:
        raise click.UsageError(f"{name}: {error}") from None


def _interval(text: str) -> float:
    try:
        seconds = parse_duration(text) / 1_000
    except ValueError as error:
        raise click.UsageError(f"--interval: {error}") from None
    if not 0.1 <= seconds <= 5:
        raise click.UsageError("--interval must be from 100ms to 5s")
    return seconds
