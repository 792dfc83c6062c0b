"""NGINX's configuration as lbgen lays it out, read back."""

import re

from lbgen.targets.inventory import (
    LISTENER,
    Inventory,
    PoolEntry,
    ServerEntry,
    frozen,
    number,
    statements,
)

_METHODS = ("least_conn", "random", "hash", "ip_hash", "least_time", "sticky")
_NO_POOL = PoolEntry("", {}, ())


def read(text: str) -> Inventory:
    """Return what a configuration says: a directive a line."""
    pools: dict[str, PoolEntry] = {}
    sections: dict[str, list[str]] = {}
    name, inside = "", []
    blocks: list[str] = []
    for line in map(str.strip, statements(text)):
        opened = re.fullmatch(r"upstream (\S+) \{", line)
        if opened:
            name, inside = opened[1], list[str]()
        elif name and line == "}":
            pools[name], name = _pool(inside), ""
        elif name:
            inside.append(line)
        else:
            _place(line, blocks, sections)
    return Inventory(_known_to_users(pools), frozen(sections))


def _place(line: str, blocks: list[str], sections: dict[str, list[str]]) -> None:
    """Add a line to the section that the open blocks make."""
    listener = LISTENER.fullmatch(line)
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


def _pool(lines: list[str]) -> PoolEntry:
    servers: dict[str, ServerEntry] = {}
    strategy, settings = "round robin", []
    for line in lines:
        words = line.rstrip(";").split()
        if words[:1] == ["server"] and len(words) > 1:
            servers[words[1]] = _server(words[1], words[2:])
        elif words and words[0] in _METHODS:
            strategy = " ".join(words)
        else:
            settings.append(line)
    return PoolEntry(strategy, servers, tuple(settings))


def _server(address: str, words: list[str]) -> ServerEntry:
    values = dict(word.partition("=")[::2] for word in words)
    state = next((word for word in ("down", "drain") if word in values), "up")
    known = {"weight", "max_conns", "backup", "down", "drain"}
    return ServerEntry(
        address,
        number(values.get("weight")) or 1,
        number(values.get("max_conns")),
        state,
        "backup" in values,
        tuple(word for word in words if word.partition("=")[0] not in known),
    )
