"""Envoy's files, read back: pools and servers, and all else key by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from lbgen.targets.inventory import Inventory, PoolEntry, ServerEntry, statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_STATES = {"DRAINING": "drain", "UNHEALTHY": "down"}
_KINDS = {"Cluster": "cluster", "Listener": "listener", "RouteConfiguration": "routes"}


def read(text: str) -> Inventory:
    """Return what files say, as the documents of one text; what is no YAML counts line by line."""
    try:
        documents = [one for one in yaml.load_all(text, yaml.CSafeLoader) if isinstance(one, dict)]
    except yaml.YAMLError:
        return Inventory({}, {"global": tuple(statements(text))})
    servers: dict[str, dict[str, ServerEntry]] = {}
    clusters: dict[str, dict[str, Any]] = {}
    sections: dict[str, tuple[str, ...]] = {}
    for document in documents:
        document.pop("version_info", None)  # differs whenever anything does
        for resource in _taken(document):
            kind = str(resource.get("@type", "")).rpartition(".")[2]
            if kind == "ClusterLoadAssignment":
                servers[str(resource.get("cluster_name"))] = dict(_servers(resource))
            elif kind == "Cluster":
                clusters[str(resource.get("name"))] = resource
            else:
                sections[f"{_KINDS.get(kind, kind)} {resource.get('name')}"] = _lines(resource)
        for key, value in document.items():
            sections[key] = (*sections.get(key, ()), *_lines(value))
    for name, cluster in clusters.items():
        inside = cluster.pop("load_assignment", None)
        if isinstance(inside, dict):
            servers[name] = dict(_servers(inside))
    pools = {name: _pool(clusters.pop(name, {}), entries) for name, entries in servers.items()}
    sections |= {f"cluster {name}": _lines(cluster) for name, cluster in clusters.items()}
    return Inventory(pools, sections)


def _taken(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Take the resources out of a document, watched or static."""
    static = document.pop("static_resources", None)
    found = [document.pop("resources", None), *(static.values() if isinstance(static, dict) else ())]
    return [one for some in found if isinstance(some, list) for one in some if isinstance(one, dict)]


def _pool(cluster: dict[str, Any], entries: dict[str, ServerEntry]) -> PoolEntry:
    policies = cluster.get("load_balancing_policy")
    name = next((line for line in _lines(policies) if ".name: " in line), "")
    return PoolEntry(name.rpartition(".")[2], entries, _lines(cluster))


def _servers(assignment: dict[str, Any]) -> Iterator[tuple[str, ServerEntry]]:
    for locality in _dicts(assignment.get("endpoints")):
        backup = bool(locality.get("priority"))
        for one in _dicts(locality.get("lb_endpoints")):
            lines = dict(line.split(": ", 1) for line in _lines(one))
            address = lines.pop("endpoint.address.pipe.path", "") or ":".join(
                lines.pop(f"endpoint.address.socket_address.{key}", "") for key in ("address", "port_value")
            )
            name = lines.pop("metadata.filter_metadata.lbgen.server", address)
            share = lines.pop("load_balancing_weight.value", "1")
            weight = int(share) if share.isdecimal() else 1
            state = _STATES.get(lines.pop("health_status", ""), "up")
            rest = tuple(f"{key}: {value}" for key, value in lines.items())
            yield name, ServerEntry(address, weight, None, state, backup, rest)


def _dicts(value: object) -> Iterable[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else ()


def _lines(value: object, key: str = "") -> tuple[str, ...]:
    """Return each scalar of some data as a line with the way to it: ``a.0.b: 5``."""
    if isinstance(value, dict):
        return tuple(line for name, one in value.items() for line in _lines(one, f"{key}.{name}"))
    if isinstance(value, list):
        return tuple(line for name, one in enumerate(value) for line in _lines(one, f"{key}.{name}"))
    return tuple(statements(f"{key.lstrip('.')}: {value}".replace("\n", "\\n")))
