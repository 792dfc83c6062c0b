"""``upstream`` blocks, and addresses that are called directly, as pools."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lbgen.imports.draft import Said, Tree
from lbgen.imports.nginx.pools.strategies import strategy
from lbgen.imports.servers import listed, server_entry
from lbgen.imports.values import duration, nginx_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.imports.nginx.reading import Reading
    from lbgen.readers.nginx import Directive

_LONGEST_EJECTION = 600_000
"""Milliseconds; the check of a fleet calls more an error."""
_FLAGS: dict[str, dict[str, Any]] = {
    "backup": {"backup": True},
    "down": {"state": "down"},
    "drain": {"state": "drain"},
}


def read_upstreams(reading: Reading) -> None:
    """Make a pool of each upstream."""
    made_again = {name for name in reading.upstreams if _is_probe(reading, name)}
    for name, upstream in reading.upstreams.items():
        if name not in made_again:
            _pool(reading, name, upstream)
        else:
            reading.pools[name] = ""
            for one in (upstream, *(upstream.block or ())):
                reading.ledger.carried(one.location)


def _is_probe(reading: Reading, name: str) -> bool:
    """Tell whether lbgen rendered this for its ready probe: the same servers once more."""
    other = reading.upstreams.get(name.removesuffix("-ready"))
    return other is not None and name.endswith("-ready") and reading.generated


def _pool(reading: Reading, name: str, upstream: Directive) -> None:
    reading.ledger.carried(upstream.location)
    tree = reading.new_pool(name, name)
    servers = [one for one in upstream.inside("server") if one.args]
    chosen = strategy(reading, upstream)
    if chosen is not None and (len(servers) > 1 or chosen.value != "round_robin"):
        tree["strategy"] = chosen
    entries = [(one, _server(reading, one)) for one in servers]
    tree["servers"] = [entry for _, entry in entries if entry is not None]
    servers = [one for one, entry in entries if entry is not None]
    if not tree["servers"]:
        del tree["servers"]
        tree["allow_empty"] = Said(value=True, place=upstream.location)
    _passive_health(reading, tree, servers)
    _keepalive(reading, tree, upstream)
    _names(reading, tree, upstream, servers)


def direct_pool(reading: Reading, host: str, port: int, place: Directive) -> str:
    """Return the pool of an address that ``proxy_pass`` calls without an upstream."""
    key = f"{host}:{port}"
    if key not in reading.pools:
        name = host if re.search(r"[A-Za-z]", host) and ":" not in host else key
        tree = reading.new_pool(key, name.split(".")[0] if re.match(r"[A-Za-z]", name) else name)
        address = f"[{host}]:{port}" if ":" in host else key
        tree["servers"] = [Said(address, place.location)]
    return reading.pools[key]


def _server(reading: Reading, line: Directive) -> Said | None:
    """Return a server of the fleet; None for one whose address it cannot have."""
    values: dict[str, Any] = {}
    reading.ledger.carried(line.location)
    address, reason = listed(line.value, default_port=80)
    if address is None:
        reading.ledger.left(line.location, reason)
        return None
    for word in line.args[1:]:
        name, _, text = word.partition("=")
        if word in _FLAGS:
            values.update(_FLAGS[word])
        elif name == "weight" and text.isdecimal():
            values["weight"] = int(text)
        elif name == "max_conns" and text.isdecimal():
            values |= {"max_in_flight": int(text)} if int(text) else {}
        elif name not in {"max_fails", "fail_timeout", "resolve", "slow_start"}:
            reading.ledger.left(line.location, f"'{word}' has no key")
    if values.get("weight", 0) > 256:
        reading.ledger.left(line.location, "the maximum weight is 256: scale the weights down")
        del values["weight"]
    return server_entry(address, values, line.location, line.comments)


def _passive_health(reading: Reading, tree: Tree, servers: Sequence[Directive]) -> None:
    said = [(one.parameter("max_fails"), one.parameter("fail_timeout")) for one in servers]
    written = [one for one, pair in zip(servers, said, strict=True) if any(pair)]
    if not written:
        return
    if len(set(said)) > 1:
        reason = "'max_fails' and 'fail_timeout' differ between servers: a pool has one passive_health"
        reading.left(written, reason)
        return
    fails, timeout = said[0]
    if fails == "0":
        tree["passive_health"] = Said(value=False, place=written[0].location)
        return
    values: dict[str, Any] = {"failures": int(fails)} if fails and fails.isdecimal() else {}
    milliseconds = nginx_time(timeout) if timeout else None
    if milliseconds is not None and milliseconds > _LONGEST_EJECTION:
        reason = f"fail_timeout={timeout} keeps a server out for {milliseconds // 60_000} minutes, not 10 s"
        for one in written:
            reading.ledger.better(one.location, reason)
    elif milliseconds:
        values |= {"window": duration(milliseconds), "eject": duration(milliseconds)}
    if values:
        tree["passive_health"] = Said(values, written[0].location)


def _keepalive(reading: Reading, tree: Tree, upstream: Directive) -> None:
    values: dict[str, Any] = {}
    lines = upstream.inside("keepalive", "keepalive_requests", "keepalive_timeout")
    for one in lines:
        time = nginx_time(one.value)
        if one.name == "keepalive_timeout" and time:
            values["idle_timeout"] = duration(time)
        elif one.name != "keepalive_timeout" and one.value.isdecimal() and int(one.value):
            values["idle" if one.name == "keepalive" else "requests"] = int(one.value)
        reading.ledger.carried(one.location)
    if values:
        tree["keepalive"] = Said(values, lines[0].location)


def _names(reading: Reading, tree: Tree, upstream: Directive, servers: Sequence[Directive]) -> None:
    """Follow names at run time, where a server says ``resolve``; warm up where it says ``slow_start``."""
    following = [one for one in servers if "resolve" in one.args]
    if following:
        tree["dns"] = runtime_dns(reading, upstream.inside("resolver"), following[0])
    slow = {one.parameter("slow_start") for one in servers}
    warmup = nginx_time(next(iter(slow)) or "") if len(slow) == 1 else None
    if warmup:
        tree["warmup"] = Said(duration(warmup), servers[0].location)
    elif slow != {None}:
        reading.left(
            [one for one in servers if one.parameter("slow_start")], "slow_start differs between servers"
        )
    reading.carry(upstream.inside("zone"))


def runtime_dns(reading: Reading, resolvers: Sequence[Directive], place: Directive) -> Said:
    """Return how names are followed at run time, with the resolver that holds there."""
    found = resolvers or [
        one for one, level in reading.directives("resolver") if level.around("stream") is None
    ]
    values: dict[str, Any] = {"mode": "runtime"}
    for one in found[:1]:
        addresses = [word for word in one.args if "=" not in word]
        valid = nginx_time(one.parameter("valid") or "")
        values["resolver"] = addresses
        values |= {"valid": duration(valid)} if valid else {}
        reading.ledger.carried(one.location)
    return Said(values, place.location)
