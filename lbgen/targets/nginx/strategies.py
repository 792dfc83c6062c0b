"""How each strategy is said to NGINX, or why it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.model import State
from lbgen.targets.nginx import bodies, sessions
from lbgen.targets.nginx.features import has
from lbgen.targets.nginx.views import Script
from lbgen.targets.sessions import session_of
from lbgen.targets.spec import Syntax
from lbgen.vocabulary import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lbgen.model import Fleet, Pool, TargetSettings
    from lbgen.targets.nginx.assembly import Assembly


def _always(pool: Pool, settings: TargetSettings) -> None:  # noqa: ARG001 - one signature for all
    return None


def _no_backups(pool: Pool, settings: TargetSettings) -> Refused | None:  # noqa: ARG001
    # Seen on 1.22.1: "balancing method does not support parameter "backup"" with hash and random.
    if any(server.backup for server in pool.servers):
        return Refused(
            f"cannot be '{pool.strategy.name}' in a pool with backup servers",
            "strategy: least_conn, or a pool of their own for the backups with when_down",
        )
    return None


def _no_metrics(pool: Pool, settings: TargetSettings) -> Refused:  # noqa: ARG001
    return Refused(
        "cannot be 'kv_cache': weights of a running NGINX cannot be changed",
        "strategy: least_conn, which follows load by itself; or the HAProxy target",
    )


def _no_order(pool: Pool, settings: TargetSettings) -> Refused:  # noqa: ARG001
    return Refused(
        "cannot be 'pack': NGINX has no method that fills servers in order",
        "strategy: least_conn with the spare servers as backup; or the HAProxy target",
    )


def refusal(pool: Pool, settings: TargetSettings) -> Refused | None:
    """Return why this pool's strategy cannot be had; None when it can."""
    return STRATEGIES[pool.strategy.name].refused(pool, settings)


def method(made: Assembly, pool: Pool) -> Syntax:
    """Return the directive that chooses a server, without its semicolon; empty for round robin.

    A refused strategy whose loss was accepted (`without: [strategy]`) is least_conn.
    """
    if refusal(pool, made.settings):
        return Syntax("least_conn")
    return STRATEGIES[pool.strategy.name].method(made, pool)


def _session(made: Assembly, pool: Pool) -> Syntax:
    session = session_of(pool)
    return sessions.method(made, session) if session else Syntax("least_conn")


def _hash(key: str) -> Syntax:
    # An empty key takes round robin (seen on 1.22.1, 1.26.3 and 1.30.6), so requests without one spread.
    return Syntax(f"hash {key} consistent")


def learns(fleet: Fleet, pool: Pool) -> bool:
    """Tell whether prefixes are learned; several balancers have to agree, and so hash them."""
    version = fleet.target("nginx").version
    return pool.strategy.name == "prefix" and has(version, "sticky") and fleet.balancers.instances == 1


def sticky(made: Assembly, pool: Pool, upstream: str) -> Syntax:
    """Return the directive that binds prefixes or sessions to the servers that had them; empty: none is.

    A request without a key, and one whose server is full or dead, goes where the method sends it, and takes
    its prefix along (seen on 1.30.6).
    """
    if refusal(pool, made.settings):
        return Syntax("")
    if not learns(made.fleet, pool):
        return sessions.sticky(made, pool, upstream)
    key = _prefix_key(made, pool)
    # A megabyte holds some thousand prefixes.
    return Syntax(f"sticky learn create={key} lookup={key} zone={upstream}-prefix:16m timeout=30m")


def counts(settings: TargetSettings, pool: Pool) -> bool:
    """Tell whether njs counts requests in flight by prefix, so that no prefix gets more than its share."""
    declared = "njs" in settings.modules and has(settings.version, "njs_counts")
    return declared and pool.strategy.name == "prefix" and bool(serving(pool))


def serving(pool: Pool) -> int:
    """Return how many servers take requests, backups among them."""
    return sum(bool(server.weight) and server.state is State.UP for server in pool.servers)


def _prefix(made: Assembly, pool: Pool) -> Syntax:
    return Syntax("least_conn") if learns(made.fleet, pool) else _hash(_prefix_key(made, pool))


def _prefix_key(made: Assembly, pool: Pool) -> Syntax:
    by = pool.strategy.parameters
    octets = by.get("bytes")
    kind = "first_bytes" if by.get("key") == "first_bytes" else "system_prompt"
    key = bodies.prompt_key(made, kind, octets if isinstance(octets, int) else 2_048)
    if by.get("scope") == "client":
        entries = [('""', '""'), ("default", f'"$lb_client:{key}"')]
        key = made.map(key, f"{key}_by_client", entries)
    return _counted(made, pool, key) if counts(made.settings, pool) else key


def _counted(made: Assembly, pool: Pool, key: Syntax) -> Syntax:
    """Return the variable that is empty where a prefix has its share in flight, so that it is spread."""
    number = made.number("counted")
    percent = round(float(str(pool.strategy.parameters.get("load_factor", 1.25))) * 100)
    made.scripts.append(Script(number, Syntax(key.removeprefix("$")), serving(pool), percent))
    made.directive("js_import lbgen from lbgen.js")
    made.directive("js_var $lb_counted")
    made.directive("js_set $lb_left lbgen.leave")
    made.directive(f"js_shared_dict_zone zone=lb-counts-{number}:1m type=number")
    made.directive(f"js_set $lb_counted_{number} lbgen.enter_{number}")
    return Syntax(f"$lb_counted_{number}")


class Way(NamedTuple):
    """How NGINX is told a strategy."""

    refused: Callable[[Pool, TargetSettings], Refused | None]
    """Returns why it cannot be; None: it can."""
    method: Callable[[Assembly, Pool], Syntax] = lambda _made, _pool: Syntax("least_conn")
    """Returns the directive that chooses a server; where it is always refused, what stands in for it."""


STRATEGIES: Mapping[str, Way] = {
    "round_robin": Way(_always, lambda _made, _pool: Syntax("")),
    "least_conn": Way(_always),
    "random_two": Way(_no_backups, lambda _made, _pool: Syntax("random two least_conn")),
    "session": Way(sessions.refusal, _session),
    "prefix": Way(_no_backups, _prefix),
    "kv_cache": Way(_no_metrics),
    "pack": Way(_no_order),
}
"""The one row of each strategy."""

REFUSALS = {name: way.refused for name, way in STRATEGIES.items()}
"""What others ask of them: why a strategy cannot be."""
