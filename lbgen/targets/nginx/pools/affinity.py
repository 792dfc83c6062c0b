"""Homes of conversations and prompts, by what this version can.

With njs of 0.8 a script keeps the homes and what every server has in flight, and says where a request goes.
From 1.29.6 on NGINX itself remembers where a conversation is. Else, and where several balancers have to
agree, conversations are hashed.
"""

from __future__ import annotations

import json
import zlib
from enum import StrEnum
from typing import TYPE_CHECKING

from lbgen.strategies.prefix import PrefixParameters, prefix_of
from lbgen.targets.nginx.features import has
from lbgen.targets.nginx.inspection import bodies
from lbgen.targets.nginx.inspection.bodies import Found, first_found, first_of
from lbgen.targets.nginx.language.names import serving
from lbgen.targets.nginx.pools.ring import keys_of
from lbgen.targets.nginx.routes.conditions import header_variable
from lbgen.targets.nginx.settings import own
from lbgen.targets.nginx.views import NOTHING, Script
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Pool, Server, TargetSettings
    from lbgen.targets.nginx.assembly import Assembly


class Homes(StrEnum):
    """How a pool's requests come to their homes."""

    SCRIPT = "script"
    """A script knows the homes, within a bound on their load."""
    STICKY = "sticky"
    """NGINX remembers the homes of conversations; new ones go to the least busy server."""
    HASH = "hash"


def homes_of(fleet: Fleet, pool: Pool, settings: TargetSettings) -> Homes:
    """Return how a pool's requests come to their homes."""
    if fleet.balancers.instances > 1:
        return Homes.HASH
    if "njs" in own(settings).modules and has(settings.version, "njs_counts") and serving(pool):
        return Homes.SCRIPT
    return Homes.STICKY if has(settings.version, "sticky") else Homes.HASH


def method(made: Assembly, pool: Pool) -> Syntax:
    """Return the directive that chooses a server, without its semicolon."""
    way = homes_of(made.fleet, pool, made.settings)
    if way is Homes.STICKY or (way is Homes.SCRIPT and has(made.settings.version, "sticky")):
        return Syntax("least_conn")
    # An empty key takes round robin (seen on 1.22.1, 1.26.3 and 1.30.6), so requests without one spread.
    return Syntax(f"hash {_variable(made, pool, way)} consistent")


def sticky(made: Assembly, pool: Pool, upstream: str) -> Syntax:
    """Return the directive that leads requests home; empty: the method does.

    A request without a key, and one whose server is full or dead, goes where the method sends it, and takes
    its conversation along (seen on 1.30.6).
    """
    way = homes_of(made.fleet, pool, made.settings)
    if way is Homes.HASH or not has(made.settings.version, "sticky"):
        return NOTHING
    name = _variable(made, pool, way)
    if way is Homes.SCRIPT:
        return Syntax(f"sticky route {name}")
    # A megabyte holds some thousand conversations.
    return Syntax(f"sticky learn create={name} lookup={name} zone={upstream}-prefix:16m timeout=30m header")


def route_of(fleet: Fleet, pool: Pool, server: Server, settings: TargetSettings) -> str:
    """Return by what the script names a server; empty: it names none."""
    if not prefix_of(pool) or not has(settings.version, "sticky"):
        return ""
    return server.name if homes_of(fleet, pool, settings) is Homes.SCRIPT else ""


def decides(made: Assembly) -> bool:
    """Tell whether a script decides where requests go, and says why in ``$lb_decision``."""
    return any(script.way == "choose" for script in made.scripts)


def _variable(made: Assembly, pool: Pool, way: Homes) -> Syntax:
    """Return the variable with a request's home, or with what names its conversation or prompt."""
    if "njs" not in own(made.settings).modules:
        return _mapped(made, pool)
    name = Syntax(f"$lb_home_of_{made.upstreams[pool.name].replace('-', '_')}")
    if all(script.name != name for script in made.scripts):
        number = len(made.scripts) + 1
        function = "choose" if way is Homes.SCRIPT else "key"
        literal = Syntax(json.dumps(_literal(made, pool, number, way), indent=4))
        made.scripts.append(Script(number, name, Syntax(function), literal))
        for line in _directives(number, name, way):
            made.directive(line)
    return name


def _directives(number: int, name: str, way: Homes) -> Iterator[str]:
    yield "js_import lbgen from lbgen.js"
    if way is Homes.SCRIPT:
        yield "js_var $lb_counted"
        yield "js_var $lb_decision"
        yield "js_set $lb_left lbgen.leave"
        yield f"js_shared_dict_zone zone=lb-homes-{number}:16m type=number timeout=30m evict"
        yield f"js_shared_dict_zone zone=lb-counts-{number}:1m type=number timeout=1h evict"
    yield f"js_set {name} lbgen.pool_{number}"


def _literal(made: Assembly, pool: Pool, number: int, way: Homes) -> dict[str, object]:
    by = PrefixParameters.of(pool.strategy.parameters)
    literal: dict[str, object] = {
        "number": number,
        "headers": by.headers,
        "conversations": by.by_conversation,
        "prompts": by.prompt,
        "characters": by.bytes,
        "by_client": by.scope == "client",
    }
    if way is not Homes.SCRIPT:
        return literal
    caps = [pool.cap(server) for server in serving(pool)]
    slack = by.slack_for(None if None in caps else min(filter(None, caps)))
    return {**literal, "factor": by.load_factor, "slack": slack, "servers": _places(made.settings, pool)}


def _places(settings: TargetSettings, pool: Pool) -> list[dict[str, object]]:
    """Return the servers that can be homes: how they are told apart, and what leads to them."""
    places = serving(pool)
    weights = sum(server.weight for server in places)
    # All of the upstream's servers are on the ring, those that are down as well.
    ring = (
        {}
        if has(settings.version, "sticky")
        else keys_of((str(server.address), server.weight or 1) for server in pool.servers)
    )
    return [
        {
            "id": zlib.crc32(str(server.address).encode()) or 1,
            "goes": ring.get(str(server.address), server.name),
            "share": server.weight * len(places) / weights,
            "cap": pool.cap(server) or 0,
        }
        for server in places
    ]


def _mapped(made: Assembly, pool: Pool) -> Syntax:
    by = PrefixParameters.of(pool.strategy.parameters)
    name = f"$lb_home_of_{made.upstreams[pool.name].replace('-', '_')}"
    ways = []
    if by.by_conversation:
        names = [*map(header_variable, by.headers), bodies.cache_key(made)]
        ways = [Found.short(first_of(made, f"{name}_named", names)), bodies.opening(made)]
    if by.prompt:
        kind = "first_bytes" if by.prompt == "first_bytes" else "system_prompt"
        ways.append(bodies.prompt_key(made, kind, by.bytes))
    key = first_found(made, name, ways)
    if by.scope == "client":
        entries = [('""', '""'), ("default", f'"$lb_client:{key.text}"')]
        return made.map(f'"{key.is_there}"', f"{name}_by_client", entries)
    return key.text
