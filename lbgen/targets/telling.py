"""What Prometheus is to record of a fleet, under the same names whatever target serves it.

A target whose own metrics say some of it has a module `tells` with `TELLS`; the engines tell the rest, and
what neither tells is not estimated.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lbgen.model import Fleet, Pool


class Recording(NamedTuple):
    """One recording rule."""

    record: str
    expr: str
    labels: Mapping[str, str] = {}


IN_FLIGHT = "lbgen:server_in_flight"
CAP = "lbgen:server_max_in_flight"
OUT = "lbgen:server_out"
DRAINED = "lbgen:server_drained"
REQUESTS = "lbgen:server_requests:rate5m"
ALIVE = "lbgen:pool_servers_up"
QUEUE = "lbgen:pool_queue"
WAIT = "lbgen:pool_queue_seconds"
ANSWERS = "lbgen:pool_answers:rate5m"
ERRORS = "lbgen:pool_errors:rate5m"
DECISIONS = "lbgen:pool_decisions:rate5m"
CONNECTIONS = "lbgen:balancer_connections"
RUNNING = "lbgen:server_running"
WAITING = "lbgen:server_waiting"
KV_USAGE = "lbgen:server_kv_usage"
FIRST_TOKEN = "lbgen:pool_first_token_seconds"  # noqa: S105 - no password
ANSWER = "lbgen:pool_answer_seconds"
PREFIX_HITS = "lbgen:pool_prefix_hits:ratio5m"

MEANINGS = {
    IN_FLIGHT: "requests in flight by server",
    CAP: "the most requests in flight by server",
    OUT: "whether a server is out",
    DRAINED: "whether a server is drained or in maintenance",
    REQUESTS: "requests a second by server",
    ALIVE: "servers that can take requests, by pool",
    QUEUE: "requests that wait, by pool",
    WAIT: "the mean time that requests waited, by pool",
    ANSWERS: "answers a second by pool",
    ERRORS: "errors a second by pool and cause",
    DECISIONS: "why requests of pools with the strategy prefix went where they went",
    CONNECTIONS: "connections of a balancer",
    RUNNING: "requests that an engine computes",
    WAITING: "requests that wait in an engine",
    KV_USAGE: "the share of an engine's KV cache in use",
    FIRST_TOKEN: "the time to the first token, by pool and quantile",
    ANSWER: "the time of whole answers, by pool and quantile",
    PREFIX_HITS: "the share of prompt tokens that engines found in their prefix caches",
}
"""What each recorded series says."""
OF_ENGINES = (RUNNING, WAITING, KV_USAGE, FIRST_TOKEN, ANSWER, PREFIX_HITS)
"""Those that an engine alone can tell."""
QUANTILES = ("0.5", "0.95", "0.99")
BY_SERVER, BY_POOL = "fleet, pool, server", "fleet, pool"


class Relabel(NamedTuple):
    """What gives the label ``server`` to series: a rule of `metric_relabel_configs`."""

    labels: tuple[str, ...]
    """Whose values are joined by ``;``."""
    regex: str
    replacement: str


class Told(NamedTuple):
    """What a target's own metrics say."""

    recordings: Callable[[Fleet], Iterator[Recording]] = lambda _fleet: iter(())
    """The rules that record it."""
    pages: Callable[[Fleet], Mapping[str, str]] = lambda _fleet: {}
    """Paths of the metrics listener beside ``/metrics``, by what they are about."""
    pool_label: str = ""
    """The label that has the pool's name; empty: there is none."""
    relabels: Callable[[Fleet], Iterator[Relabel]] = lambda _fleet: iter(())
    """What names servers where no label does."""


def told_by(target: str) -> Told:
    """Return what a target's metrics say: nothing where its package does not know them."""
    place = f"lbgen.targets.{target}.tells"
    if find_spec(place) is None:
        return Told()
    told: Told = import_module(place).TELLS
    return told


def series(fleet: Fleet, name: str, *matchers: str) -> str:
    """Return a metric of this fleet; its name may have matchers of its own."""
    bare, _, own = name.rstrip("}").partition("{")
    of_fleet = f'fleet="{fleet.name}"'
    return f"{bare}{{{','.join(filter(None, (own, *matchers, of_fleet)))}}}"


def first(around: str, fleet: Fleet, names: tuple[str, ...]) -> str:
    """Return an expression that takes the first name that there is: engines rename their metrics."""
    return " or ".join(around.format(series(fleet, name)) for name in names)


def caps(fleet: Fleet, pool: Pool, alive: str, *matchers: str) -> Iterator[Recording]:
    """Yield the fleet's own caps of a pool's servers, for a balancer that does not tell them.

    `alive` is a metric that each server has; its labels name pool and server.
    """
    by_cap: dict[int, list[str]] = {}
    for server in pool.servers:
        cap = pool.cap(server)
        if cap is not None:
            by_cap.setdefault(cap, []).append(server.name)
    for cap, names in by_cap.items():
        one = series(fleet, alive, *matchers, f'pool="{pool.name}"', f'server=~"{one_of(names)}"')
        yield Recording(CAP, f"0 * max by ({BY_SERVER}) ({one}) + {cap}")


def one_of(names: list[str]) -> str:
    """Return a regular expression of Prometheus that matches these names of servers alone."""
    return "|".join(name.replace(".", "[.]") for name in dict.fromkeys(names))
