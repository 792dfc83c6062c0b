"""Limits on requests: token buckets of Envoy's own, shared by its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.targets.envoy.language.words import Node, duration, typed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener
    from lbgen.targets.envoy.assembly import Assembly
    from lbgen.units import Rate

_KIND = "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit"
_SHORTEST = 50
"""Milliseconds: the shortest time between two fills of a bucket."""
_KNOWN = 100_000
"""So many addresses or clients are remembered; the one that was silent for longest is forgotten."""


class Bound(NamedTuple):
    """One limit of a listener."""

    name: str
    """The filter's."""
    per: str
    rate: Rate
    burst: int
    only: str = ""
    """The one client that it is for."""


def bounds(made: Assembly, listener: Listener) -> Iterator[Bound]:
    """Yield a listener's limits, and those of its clients."""
    for number, limit in enumerate(listener.limits, 1):
        if limit.rate:
            kind = "ip" if limit.per == "ip" else "known"
            yield Bound(f"lb.limit.{kind}.{number}", limit.per, limit.rate, limit.burst)
    for client in made.fleet.clients:
        if client.rate and client.name in listener.auth.clients:
            yield Bound("lb.limit.known.clients", "client", client.rate, client.burst, client.name)


def limit_filters(made: Assembly, listeners: tuple[Listener, ...]) -> tuple[list[Node], list[Node]]:
    """Return the filters before keys are asked for, so that who guesses keys is counted, and those behind."""
    names = dict.fromkeys(bound.name for listener in listeners for bound in bounds(made, listener))
    found = [
        {"name": name, "disabled": True, "typed_config": typed(_KIND, stat_prefix=name)} for name in names
    ]
    early = [node for node in found if str(node["name"]).startswith("lb.limit.ip.")]
    return early, [node for node in found if node not in early]


def limits_of(made: Assembly, listener: Listener) -> Node:
    """Return what a listener's virtual host tells these filters."""
    found: dict[str, list[Bound]] = {}
    for bound in bounds(made, listener):
        found.setdefault(bound.name, []).append(bound)
    return {name: _config(listener, sharing) for name, sharing in found.items()}


def _config(listener: Listener, sharing: list[Bound]) -> Node:
    everything = {"default_value": {"numerator": 100}}
    node = typed(
        _KIND, stat_prefix=f"limit.{listener.name}", filter_enabled=everything, filter_enforced=everything
    )
    first = sharing[0]
    if first.per == "total":
        return node | {"token_bucket": _bucket(first)}
    node["max_dynamic_descriptors"] = _KNOWN
    node["#"] = "No limit for clients that are not listed below."
    node["token_bucket"] = {"max_tokens": 1 << 31, "tokens_per_fill": 1 << 31, "fill_interval": "1s"}
    node["rate_limits"] = [{"actions": [_action(first.per)]}]
    node["descriptors"] = [{"entries": [_entry(bound)], "token_bucket": _bucket(bound)} for bound in sharing]
    return node


def _action(per: str) -> Node:
    if per == "ip":
        return {"remote_address": {}}
    key = {"key": "lbgen", "path": [{"key": "client"}]}
    return {"metadata": {"descriptor_key": "client", "metadata_key": key, "source": "DYNAMIC"}}


def _entry(bound: Bound) -> Node:
    if bound.per == "ip":
        return {"key": "remote_address"}
    return {"key": "client", **({"value": bound.only} if bound.only else {})}


def _bucket(bound: Bound) -> Node:
    """Return a bucket that holds the burst and one more, and is filled at the rate."""
    rate = bound.rate
    period = rate.seconds * 1_000
    tokens = 1
    while period * tokens // rate.requests < _SHORTEST or period * tokens % rate.requests:
        tokens += 1
    return {
        "max_tokens": max(bound.burst + 1, tokens),
        "tokens_per_fill": tokens,
        "fill_interval": duration(period * tokens // rate.requests),
    }
