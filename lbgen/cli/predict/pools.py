"""Which pool and which strategy a simulation or a trial is about, as the command line says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lbgen.cli.inputs import load_fleet
from lbgen.cli.options import nearest
from lbgen.fleet.shares import shared_out
from lbgen.problems import FleetError, LbgenError
from lbgen.simulate.servers.pool import canonical
from lbgen.strategies.registry import STRATEGIES

if TYPE_CHECKING:
    from lbgen.cli.console import Console
    from lbgen.cli.options import FleetRequest
    from lbgen.model import Fleet, Pool


def named_pool(fleet: Fleet, name: str) -> Pool:
    """Return the pool that ``--pool`` names; raises `LbgenError` with the nearest one."""
    names = [pool.name for pool in fleet.pools]
    if name not in names:
        raise LbgenError(f"--pool {name}: is not a pool of this fleet: {nearest(name, names)}")
    return fleet.pool(name)


def lenient_fleet(console: Console, request: FleetRequest) -> Fleet:
    """Return the fleet as one of its balancers sees it, even where its targets refuse what it says."""
    loaded = load_fleet(console, request)
    if loaded.fleet is None:
        raise FleetError(loaded.problems)
    return shared_out(loaded.fleet)


def asked_pool(fleet: Fleet, name: str | None) -> Pool:
    """Return the pool that ``--pool`` names, else the first that is served; raises `LbgenError`."""
    if name is not None:
        return named_pool(fleet, name)
    usable = [pool for pool in fleet.pools if pool.servers]
    if not usable:
        raise LbgenError("no pool of this fleet has servers")
    return first_served(fleet) or usable[0]


def first_served(fleet: Fleet) -> Pool | None:
    """Return the first pool that has servers and a route; None when there is none."""
    routed = {name for listener in fleet.listeners for name in listener.pools}
    return next((pool for pool in fleet.pools if pool.servers and pool.name in routed), None)


def strategy_name(text: str) -> str:
    """Return a strategy's canonical name; raises `click.UsageError` with the nearest one."""
    known = canonical(text)
    if known is None:
        raise click.UsageError(f"'{text}' is not a strategy: {nearest(text, STRATEGIES)}")
    return known
