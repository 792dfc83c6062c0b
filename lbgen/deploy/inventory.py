"""What a configuration file says of its pools: read back from the text, ours or changed by hand since.

Old and new are read by the same eyes, so a plan tells what is on disk and not what
lbgen remembers having written.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple


class ServerEntry(NamedTuple):
    """One server line; None: not said there."""

    address: str
    weight: int
    cap: int | None
    state: str
    backup: bool
    rest: tuple[str, ...]
    """All other parameters."""


class PoolEntry(NamedTuple):
    """One upstream or backend."""

    strategy: str
    servers: Mapping[str, ServerEntry]
    """By what the target tells them apart: the name (HAProxy), the address (NGINX)."""
    settings: tuple[str, ...]
    """All other lines."""


class Inventory(NamedTuple):
    """Everything that a plan can put into words."""

    pools: Mapping[str, PoolEntry]
    rest: tuple[str, ...]
    """All lines outside the pools, comments left out."""


def _lines(text: str) -> Iterator[str]:
    """Yield the lines that say something, indented as they are.

    Comments do not, nor does the name of the fleet in the live probe, which differs whenever anything does.
    """
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield _LIVE.sub('{"status": "ok"}', line.rstrip())


_LIVE = re.compile(r'\{"status": "ok", "digest": "[^"]*"(, "files": "[^"]*")?\}')


_NGINX_METHODS = ("least_conn", "random", "hash", "ip_hash", "least_time", "sticky")


def read_nginx(text: str) -> Inventory:
    """Return the upstreams of an NGINX configuration as lbgen lays it out: a directive a line."""
    pools: dict[str, PoolEntry] = {}
    rest: list[str] = []
    name = ""
    inside: list[str] = []
    for line in map(str.strip, _lines(text)):
        opened = re.fullmatch(r"upstream (\S+) \{", line)
        if opened:
            name, inside = opened[1], []
        elif name and line == "}":
            pools[name], name = _nginx_pool(inside), ""
        else:
            (inside if name else rest).append(line)
    return Inventory(pools, tuple(rest))


def _nginx_pool(lines: list[str]) -> PoolEntry:
    servers: dict[str, ServerEntry] = {}
    strategy, settings = "round robin", []
    for line in lines:
        words = line.rstrip(";").split()
        if words[0] == "server":
            servers[words[1]] = _nginx_server(words[1], words[2:])
        elif words[0] in _NGINX_METHODS:
            strategy = " ".join(words)
        else:
            settings.append(line)
    return PoolEntry(strategy, servers, tuple(settings))


def _nginx_server(address: str, words: list[str]) -> ServerEntry:
    values = dict(word.partition("=")[::2] for word in words)
    state = next((word for word in ("down", "drain") if word in values), "up")
    known = {"weight", "max_conns", "backup", "down", "drain"}
    return ServerEntry(
        address,
        int(values.get("weight", 1)),
        int(values["max_conns"]) if "max_conns" in values else None,
        state,
        "backup" in values,
        tuple(word for word in words if word.partition("=")[0] not in known),
    )


def read_haproxy(text: str) -> Inventory:
    """Return the backends of a HAProxy configuration."""
    pools: dict[str, PoolEntry] = {}
    rest: list[str] = []
    name = ""
    inside: list[str] = []
    for line in _lines(text):
        bare = line.strip()
        if not line[0].isspace():
            if name:
                pools[name] = _haproxy_pool(inside)
            words = bare.split()
            name, inside = (words[1] if words[0] == "backend" else ""), []
            if name:
                continue
        (inside if name else rest).append(bare)
    if name:
        pools[name] = _haproxy_pool(inside)
    return Inventory(pools, tuple(rest))


def _haproxy_pool(lines: list[str]) -> PoolEntry:
    servers: dict[str, ServerEntry] = {}
    strategy = "roundrobin"
    settings: list[str] = []
    default: list[str] = []
    for line in lines:
        words = line.split()
        if words[0] == "server":
            servers[words[1]] = _haproxy_server(words[2], default + words[3:])
        elif words[0] == "default-server":
            default = words[1:]
            settings.append(line)
        elif words[0] == "balance":
            strategy = " ".join(words[1:])
        else:
            settings.append(line)
    return PoolEntry(strategy, servers, tuple(settings))


def _haproxy_server(address: str, words: list[str]) -> ServerEntry:
    places = [at for at, word in enumerate(words[:-1]) if word in {"weight", "maxconn"}]
    values = {words[at]: words[at + 1] for at in places}
    weight = int(values.get("weight", 1))
    state = "down" if "disabled" in words else "drain" if weight == 0 else "up"
    said = {*places, *(at + 1 for at in places)}  # by place: 'rise 2' is not the 2 of 'weight 2'
    said |= {at for at, word in enumerate(words) if word in {"disabled", "backup"}}
    return ServerEntry(
        address,
        weight,
        int(values["maxconn"]) if "maxconn" in values else None,
        state,
        "backup" in words,
        tuple(word for at, word in enumerate(words) if at not in said),
    )


READERS: Mapping[str, Callable[[str], Inventory]] = {"nginx": read_nginx, "haproxy": read_haproxy}
"""By target."""
