"""What a rule is, and what the rules share: who is reached, what was written, how times are said."""

# Annotations are not postponed: each string would be compiled when a named tuple is made.
from collections.abc import Callable, Iterator
from typing import NamedTuple

from lbgen.engines import ENGINES, Engine
from lbgen.model import Fleet, Listener, Pool, Route
from lbgen.problems import Path, Severity
from lbgen.targets.registry import TARGETS
from lbgen.targets.spec import Abilities, Target
from lbgen.units import Address

_LOOPBACK_NAMES = {"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"}
MINUTE = 60_000
"""Milliseconds."""


class Finding(NamedTuple):
    """One place where a rule fires."""

    path: Path
    message: str
    """What is wrong and what it costs, with the user's own names and numbers."""
    hint: str = ""
    """What to write here; empty: the rule's remedy."""
    severity: Severity | None = None
    """None: the rule's."""


class Rule(NamedTuple):
    """Something that a fleet file can say and should not."""

    code: str
    severity: Severity
    summary: str
    """What it finds, in a line."""
    why: str
    """What it does to a fleet of LLM servers, with the source of each number."""
    remedy: str
    """What to write instead."""
    check: Callable[[Fleet], Iterator[Finding]]


def engine_of(pool: Pool) -> Engine:
    """Return what is known of a pool's engine."""
    return ENGINES.get(pool.engine, ENGINES["openai"])


def targets_that(fleet: Fleet, can: Callable[[Abilities], bool]) -> list[Target]:
    """Return the fleet's targets with an ability."""
    targets = (TARGETS[one.name] for one in fleet.targets)
    return [target for target in targets if can(target.abilities)]


def routed_pools(listener: Listener) -> set[str]:
    """Return the names of the pools that requests to this listener can reach."""
    names = set(listener.pools)
    if listener.acme and listener.acme.pool:
        names.add(listener.acme.pool)
    return names


def routes_with_pools(fleet: Fleet) -> Iterator[tuple[Route, list[Pool]]]:
    """Yield each route with the pools that it can send to."""
    pools = {pool.name: pool for pool in fleet.pools}
    for listener in fleet.listeners:
        for route in listener.routes:
            yield route, [pools[name] for name in route.pools if name in pools]


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a listener on this host."""
    return host.startswith("127.") or host == "::1" or is_loopback_name(host)


def is_loopback_name(host: str) -> bool:
    """Tell whether a name stands for this machine everywhere (RFC 6761, and Debian's ``/etc/hosts``)."""
    name = host.lower().rstrip(".")
    return name in _LOOPBACK_NAMES or name.endswith(".localhost")


def is_everywhere(host: str) -> bool:
    """Tell whether a bind to this host means every address."""
    return host in {"*", "0.0.0.0", "::"}  # noqa: S104 - compared, not bound


def is_public(binds: tuple[Address, ...]) -> bool:
    """Tell whether other machines can reach one of these."""
    return any(not is_loopback(bind.host) for bind in binds)


def spoken(milliseconds: int) -> str:
    """Return a time in its two largest units, as people say it: ``2 h 46 min``."""
    left = milliseconds
    words = []
    for name, size in (("d", 86_400_000), ("h", 3_600_000), ("min", MINUTE), ("s", 1_000), ("ms", 1)):
        if left >= size:
            words.append(f"{left // size} {name}")
            left %= size
    return " ".join(words[:2]) or "0 s"
