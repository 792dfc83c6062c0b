"""What configurations say, read by other eyes than the import's: crossplane's, and a reader of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import crossplane

if TYPE_CHECKING:
    from pathlib import Path


class Facts(NamedTuple):
    """Facts with the lines that each comes from."""

    facts: dict[tuple[Any, ...], set[int]]

    @property
    def everything(self) -> set[tuple[Any, ...]]:
        return set(self.facts)

    def without(self, lines: set[int]) -> set[tuple[Any, ...]]:
        """Return the facts that come from none of these lines."""
        return {fact for fact, of in self.facts.items() if not of & lines}


def nginx_facts(path: Path) -> Facts:
    """Return upstreams' servers, hosts, addresses, and which servers the paths of locations lead to."""
    parsed = crossplane.parse(str(path), combine=True, check_ctx=False, check_args=False)
    block = parsed["config"][0]["parsed"]
    http = next((one["block"] for one in block if one["directive"] == "http"), block)
    groups = {one["args"][0]: _servers(one["block"]) for one in http if one["directive"] == "upstream"}
    facts: dict[tuple[Any, ...], set[int]] = {}
    for name, servers in groups.items():
        for server, line in servers.items():
            facts.setdefault(("server", name, *server), set()).add(line)
    for server in (one for one in http if one["directive"] == "server"):
        _server(server, groups, facts)
    return Facts(facts)


def _servers(block: list[dict[str, Any]]) -> dict[tuple[Any, ...], int]:
    found = {}
    for one in block:
        if one["directive"] == "server":
            address, *rest = one["args"]
            weight = next((word for word in rest if word.startswith("weight=")), "weight=1")
            found[address, weight, "backup" in rest, "down" in rest] = one["line"]
    return found


def _server(server: dict[str, Any], groups: dict[str, Any], facts: dict[tuple[Any, ...], set[int]]) -> None:
    inside = server["block"]
    for one in inside:
        if one["directive"] == "listen":
            port = one["args"][0].rpartition(":")[2]
            facts.setdefault(("listen", port, "ssl" in one["args"]), set()).add(one["line"])
        if one["directive"] == "server_name":
            for name in set(one["args"]) - {"_", "localhost"}:
                facts.setdefault(("host", name), set()).add(one["line"])
        if one["directive"] == "location":
            for inner in _passes(one, inside):
                where = one["args"][-1].rstrip("/") or "/"
                target = inner["args"][0].partition("://")[2].partition("/")[0].partition("$")[0]
                servers = frozenset(server[0] for server in groups.get(target, {(target,): 0}))
                facts.setdefault(("location", where, servers), set()).update({inner["line"], one["line"]})


def _passes(location: dict[str, Any], around: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what a location calls, by way of named locations as well."""
    names = {
        one["args"][0]: one for one in around if one["directive"] == "location" and one["args"][0][0] == "@"
    }
    found = [one for one in location["block"] if one["directive"] == "proxy_pass"]
    for one in location["block"]:
        name = one["args"][-1].partition("$")[0] if one["directive"] == "try_files" else ""
        if name in names:
            found += _passes(names[name], around)
    return found


def haproxy_facts(path: Path) -> Facts:
    """Return backends' servers, addresses, and to which servers each rule of a frontend may lead."""
    facts: dict[tuple[Any, ...], set[int]] = {}
    kind, name, default = "", "", list[str]()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split("#")[0].split() if not line.lstrip().startswith("log-format") else []
        if not words:
            continue
        if not line[0].isspace():
            kind, name, default = words[0], (words[1:] or [""])[0], []
        elif words[0] == "default-server":
            default = words[1:]
        else:
            fact = _fact(kind, name, default, words)
            if fact is not None:
                facts.setdefault(fact, set()).add(number)
    served = {fact[1] for fact in facts if fact[0] == "server"}
    return Facts({fact: of for fact, of in facts.items() if fact[0] != "leads to" or fact[1] in served})


def _fact(kind: str, name: str, default: list[str], words: list[str]) -> tuple[Any, ...] | None:
    first = words[0]
    if first == "server" and kind in {"backend", "listen"}:
        rest = default + words[3:]
        weight = rest[rest.index("weight") + 1] if "weight" in rest else "1"
        cap = rest[rest.index("maxconn") + 1] if "maxconn" in rest else ""
        return ("server", name, words[1], words[2], weight, cap, "backup" in rest, "disabled" in rest)
    if first == "bind":
        return ("bind", words[1].rpartition(":")[2], "ssl" in words)
    if first in {"use_backend", "default_backend"}:
        return ("leads to", words[1])
    if first == "balance" and kind == "backend":
        return ("balance", name, {"random": "random(2)"}.get(words[1], words[1]))
    if words[:2] == ["http-check", "send"]:
        return ("check", name, words[words.index("uri") + 1])
    return ("check", name, words[3]) if words[:2] == ["option", "httpchk"] and len(words) > 3 else None
