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


_NO_POOL = PoolEntry("", {}, ())


class Inventory(NamedTuple):
    """Everything that a plan can put into words."""

    pools: Mapping[str, PoolEntry]
    sections: Mapping[str, tuple[str, ...]]
    """All lines outside the pools, comments left out, by what they belong to, such as ``listener public``."""


def statements(text: str) -> Iterator[str]:
    """Yield the lines that say something, indented as they are.

    Comments do not, but for NGINX's listeners' names, nor does the name of the files in the live
    probe, which differs whenever anything does.
    """
    for line in text.splitlines():
        if line.strip() and (not line.lstrip().startswith("#") or _LISTENER.search(line)):
            yield _LIVE.sub('{"status": "ok"}', line.rstrip())


_LISTENER = re.compile(r"# (listener \S+)$")
_LIVE = re.compile(r'\{"status": "ok", "digest": "[^"]*"(, "files": "[^"]*")?\}')


_NGINX_METHODS = ("least_conn", "random", "hash", "ip_hash", "least_time", "sticky")


def read_nginx(text: str) -> Inventory:
    """Return what an NGINX configuration says as lbgen lays it out: a directive a line."""
    pools: dict[str, PoolEntry] = {}
    sections: dict[str, list[str]] = {}
    name, inside = "", []
    blocks: list[str] = []
    for line in map(str.strip, statements(text)):
        opened = re.fullmatch(r"upstream (\S+) \{", line)
        if opened:
            name, inside = opened[1], list[str]()
        elif name and line == "}":
            pools[name], name = _nginx_pool(inside), ""
        elif name:
            inside.append(line)
        else:
            _place(line, blocks, sections)
    return Inventory(_known_to_users(pools), _frozen(sections))


def _place(line: str, blocks: list[str], sections: dict[str, list[str]]) -> None:
    """Add a line to the section that the open blocks make."""
    listener = _LISTENER.fullmatch(line)
    if listener and blocks:
        blocks[-1] = listener[1]
    elif line == "}" and blocks:
        blocks.pop()
    elif line.endswith("{"):
        blocks.append(line.removesuffix("{").strip())
        if line != "server {":
            sections.setdefault(_title(blocks), []).append(line)
    else:
        sections.setdefault(_title(blocks), []).append(line)


def _title(blocks: list[str]) -> str:
    listener = next((block for block in blocks if block.startswith("listener ")), "")
    if not listener:
        return "global"
    path = re.fullmatch(r"location (?:= )?(/(?!\.lbgen/)\S*)", blocks[-1])
    return f"{listener}, {path[1].rstrip('/') or '/'}" if path else listener


def _known_to_users(pools: dict[str, PoolEntry]) -> dict[str, PoolEntry]:
    """Leave out the upstreams that only NGINX's ready probe asks: the same servers again."""
    return {
        name: pool
        for name, pool in pools.items()
        if not (name.endswith("-ready") and pools.get(name.removesuffix("-ready"), _NO_POOL).servers.keys()
                == pool.servers.keys())
    }  # fmt: skip


def _frozen(sections: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {title: tuple(lines) for title, lines in sections.items()}


def _nginx_pool(lines: list[str]) -> PoolEntry:
    servers: dict[str, ServerEntry] = {}
    strategy, settings = "round robin", []
    for line in lines:
        words = line.rstrip(";").split()
        if words[:1] == ["server"] and len(words) > 1:
            servers[words[1]] = _nginx_server(words[1], words[2:])
        elif words and words[0] in _NGINX_METHODS:
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
        _number(values.get("weight")) or 1,
        _number(values.get("max_conns")),
        state,
        "backup" in values,
        tuple(word for word in words if word.partition("=")[0] not in known),
    )


def _number(text: str | None) -> int | None:
    """Return a number; None for what is none, such as a variable in a file that others wrote."""
    return int(text) if text and text.isdecimal() else None


def read_haproxy(text: str) -> Inventory:
    """Return what a HAProxy configuration says."""
    pools: dict[str, PoolEntry] = {}
    sections: dict[str, list[str]] = {}
    title, inside = "global", list[str]()
    for line in [*statements(text), "end"]:
        if line[0].isspace():
            inside.append(line.strip())
            continue
        kind, _, name = title.partition(" ")
        if kind == "backend":
            pools[name] = _haproxy_pool(inside)
        elif inside:
            sections.setdefault(title, []).extend(inside)
        title, inside = _haproxy_title(line.split()), []
    return Inventory(pools, _frozen(sections))


def _haproxy_title(words: list[str]) -> str:
    """Return what a section is about; tables of limits are backends in HAProxy alone."""
    kind, name = words[0], words[1] if len(words) > 1 else ""
    if kind == "frontend":
        return name.removeprefix("lb:").replace(":", " ", 1)
    if kind == "backend":
        return f"backend {name}" if ":" not in name else f"table {name}"
    return "global" if kind in {"global", "defaults", "crt-store"} else f"{kind} {name}"


def _haproxy_pool(lines: list[str]) -> PoolEntry:
    servers: dict[str, ServerEntry] = {}
    strategy = "roundrobin"
    settings: list[str] = []
    default: list[str] = []
    for line in lines:
        words = line.split()
        if words[0] == "server" and len(words) > 2:
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
    weight = _number(values.get("weight", "1"))
    weight = 1 if weight is None else weight
    state = "down" if "disabled" in words else "drain" if weight == 0 else "up"
    said = {*places, *(at + 1 for at in places)}  # by place: 'rise 2' is not the 2 of 'weight 2'
    said |= {at for at, word in enumerate(words) if word in {"disabled", "backup"}}
    return ServerEntry(
        address,
        weight,
        _number(values.get("maxconn")),
        state,
        "backup" in words,
        tuple(word for at, word in enumerate(words) if at not in said),
    )


READERS: Mapping[str, Callable[[str], Inventory]] = {"nginx": read_nginx, "haproxy": read_haproxy}
"""By target."""
