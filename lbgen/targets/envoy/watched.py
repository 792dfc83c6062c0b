"""Servers taken out in the watched file of their pool, and seen on the admin's pages.

In the file ``drained: true`` beside a server's name tells what `hold` took out from what the fleet says.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from lbgen.targets.envoy.pools.clusters import by_name
from lbgen.targets.watching import Process, RunningHost

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lbgen.model import Fleet
    from lbgen.targets.watching import Watched

_OUT = "health_status: DRAINING"
_MARK = "drained: true"
_REACHED = (
    "health_checks",
    "transport_socket",
    "transport_socket_matches",
    "typed_extension_protocol_options",
)
"""What of a cluster says how its servers are spoken to and checked."""


class _Entry(NamedTuple):
    """A server's mapping in the text, and that of its name."""

    whole: yaml.MappingNode
    named: yaml.MappingNode

    @property
    def name(self) -> str:
        return str(_get(self.named, "server").value)

    @property
    def held(self) -> bool:
        return bool(_get(self.named, "drained").value == "true")


class EnvoyWatched:
    """The endpoints' files and the admin port."""

    pools_file = "clusters.yaml"
    pages: tuple[str, ...] = (
        "/clusters?format=json",
        "/server_info",
        "/stats?format=json&filter=ejections_enforced_total$",
    )

    def servers_file(self, fleet: Fleet, pool: str) -> str:
        """Return the pool's file; raises `ValueError` where its servers stand with their cluster."""
        if by_name(fleet.pool(pool)):
            raise ValueError(
                f"servers of pool {pool} are names, which Envoy looks up in clusters.yaml: a change there "
                "makes the pool anew, and what the old one has in flight cannot be seen"
            )
        return f"endpoints/{pool}.yaml"

    def holds(self, text: str) -> frozenset[str]:
        """Return who was taken out in this file."""
        try:
            return frozenset(entry.name for entry in _entries(text) if entry.held)
        except ValueError:
            return frozenset()

    def hold(self, text: str, names: Collection[str]) -> str:
        """Return the file with these servers out, and no others than those that the fleet takes out."""
        entries = list(_entries(text))
        missing = set(names) - {entry.name for entry in entries}
        if missing:
            raise ValueError(f"has no server {', '.join(sorted(missing))}")
        for entry in reversed(entries):  # what stands before keeps its place
            if entry.held and entry.name not in names:
                text = _without(_without(text, entry.named, "drained"), entry.whole, "health_status")
            elif entry.name in names and not entry.held and not _get(entry.whole, "health_status").value:
                text = _with(_with(text, entry.named, _MARK), entry.whole, _OUT)
        return text

    def joined(self, old: str, new: str) -> str:
        """Return the new file with the old one's servers that are in use, each where its priority stands."""
        document = yaml.load(new, yaml.CSafeLoader)
        places = {place.get("priority", 0): place for place in reversed(_localities(document))}
        for place in _localities(yaml.load(old, yaml.CSafeLoader)):
            there = places.get(place.get("priority", 0)) or next(iter(places.values()))
            known = _list(there, "lb_endpoints")
            serving = [one for one in _list(place, "lb_endpoints") if "health_status" not in one]
            there["lb_endpoints"] = known + [one for one in serving if one not in known]
        header = new.partition("\n")[0]
        return f"{header}\n{yaml.safe_dump(document, sort_keys=False, width=1_000)}"

    def reached(self, text: str, pool: str) -> object:
        """Return the pool's protocol, TLS and health checks, as its cluster has them."""
        clusters = _list(yaml.load(text, yaml.CSafeLoader) or {}, "resources")
        return [{key: one.get(key) for key in _REACHED} for one in clusters if one.get("name") == pool]

    def process(self, pages: tuple[str, ...]) -> Process:
        """Read the pages; raises `ValueError`."""
        clusters, info, stats = map(_mapping, pages)
        hosts = [host for one in _list(clusters, "cluster_statuses") for host in _hosts(one)]
        ejections = {
            str(one["name"]).removeprefix("cluster.").partition(".outlier_detection.")[0]: _number(one)
            for one in _list(stats, "stats")
            if str(one.get("name", "")).startswith("cluster.")
        }
        # "1b2c…/1.40.0/Clean/RELEASE/BoringSSL"
        version = str(info.get("version", "")).split("/")[1:2]
        uptime = str(info.get("uptime_current_epoch", "")).removesuffix("s")
        if not version or not uptime.isdecimal():
            raise ValueError("/server_info names no version")
        return Process(version[0], int(uptime), tuple(hosts), ejections)


WATCHED: Watched = EnvoyWatched()


def _entries(text: str) -> Iterator[_Entry]:
    try:
        document = yaml.compose(text, yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise ValueError(f"is no YAML: {error}") from None
    for resource in _items(_get(document, "resources")):
        for locality in _items(_get(resource, "endpoints")):
            for one in _items(_get(locality, "lb_endpoints")):
                named = _get(_get(_get(one, "metadata"), "filter_metadata"), "lbgen")
                if isinstance(one, yaml.MappingNode) and isinstance(named, yaml.MappingNode):
                    yield _Entry(one, named)


def _localities(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [place for resource in _list(document, "resources") for place in _list(resource, "endpoints")]


_NOTHING = yaml.ScalarNode("", "")


def _get(node: yaml.Node | None, key: str) -> yaml.Node:
    for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if name.value == key:
            found: yaml.Node = value
            return found
    return _NOTHING


def _items(node: yaml.Node) -> list[yaml.Node]:
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _with(text: str, node: yaml.MappingNode, line: str) -> str:
    """Return the text with a first pair in a mapping."""
    at = node.start_mark.index
    if node.flow_style:
        return f"{text[: at + 1]}{line}, {text[at + 1 :]}"
    return f"{text[:at]}{line}\n{' ' * node.start_mark.column}{text[at:]}"


def _without(text: str, node: yaml.MappingNode, key: str) -> str:
    """Return the text without the first pair of a mapping, which is the one that `_with` put there."""
    names = [name for name, _ in node.value]
    if len(names) < 2 or names[0].value != key:
        raise ValueError(f"'{key}' does not stand where lbgen put it: apply the fleet once more")
    return text[: names[0].start_mark.index] + text[names[1].start_mark.index :]


def _mapping(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("is no mapping")  # noqa: TRY004 - what the protocol names
    return found


def _list(mapping: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = mapping.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _dict(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = mapping.get(key)
    return found if isinstance(found, dict) else {}


def _number(stat: Mapping[str, Any]) -> int:
    text = str(stat.get("value", "0"))
    return int(text) if text.isdecimal() and len(text) <= 20 else 0


def _hosts(cluster: dict[str, Any]) -> Iterator[RunningHost]:
    for one in _list(cluster, "host_statuses"):
        where, health = _dict(one, "address"), _dict(one, "health_status")
        place = _dict(where, "socket_address")
        address = _dict(where, "pipe").get("path") or f"{place.get('address')}:{place.get('port_value')}"
        stats = {str(stat.get("name")): _number(stat) for stat in _list(one, "stats")}
        weight = one.get("weight")
        yield RunningHost(
            pool=str(cluster.get("name")),
            address=str(address),
            hostname=str(one.get("hostname", "")),
            state=_state(health),
            check=_check(health),
            weight=weight if isinstance(weight, int) else 1,
            backup=bool(one.get("priority")),
            in_flight=stats.get("rq_active", 0) + stats.get("rq_pending_active", 0),
            connections=stats.get("cx_active", 0),
            requests=stats.get("rq_total", 0),
            failed=stats.get("rq_error", 0) + stats.get("rq_timeout", 0),
        )


def _state(health: Mapping[str, Any]) -> str:
    said = health.get("eds_health_status")
    if said == "DRAINING":
        return "drain"
    if said == "UNHEALTHY" or health.get("failed_active_health_check"):
        return "down"
    return "ejected" if health.get("failed_outlier_check") else "up"


def _check(health: Mapping[str, Any]) -> str:
    # A server that is new counts as failed until its first check has passed.
    if health.get("active_hc_timeout"):
        return "timed out"
    return "failed" if health.get("failed_active_health_check") else "passed"
