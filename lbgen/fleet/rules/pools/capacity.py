"""Rules about how much a fleet takes: weights, caps, queues, spare servers, connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.fleet.rules.rule import Finding, Rule, routes_with_pools, targets_that
from lbgen.model import State
from lbgen.problems import Severity
from lbgen.strategies.kv_cache import kv_of
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Pool
    from lbgen.targets.spec import Room

_AFFINITY = ("session", "prefix")


def zero_weights(fleet: Fleet) -> Iterator[Finding]:
    """Find pools in which every weight is 0."""
    for pool in fleet.pools:
        if pool.servers and all(server.weight == 0 for server in pool.servers):
            yield Finding(
                (*pool.path, "servers"), f"every server of '{pool.name}' has weight 0: nobody is served"
            )


def no_server_up(fleet: Fleet) -> Iterator[Finding]:
    """Find pools in which every server is drained or down."""
    for pool in fleet.pools:
        if pool.servers and all(server.state is not State.UP for server in pool.servers):
            message = f"no server of '{pool.name}' is up: every request gets 503"
            yield Finding((*pool.path, "servers"), message)


def only_backups(fleet: Fleet) -> Iterator[Finding]:
    """Find pools in which every server is a backup."""
    for pool in fleet.pools:
        if pool.servers and all(server.backup for server in pool.servers):
            message = f"every server of '{pool.name}' is a backup, and there is none to stand in for"
            yield Finding((*pool.path, "servers"), message)


def backup_with_affinity(fleet: Fleet) -> Iterator[Finding]:
    """Find backups beside a strategy that binds requests to servers, or chooses at random."""
    for pool in fleet.pools:
        spare = next((server for server in pool.servers if server.backup), None)
        if spare is None or _is_refused(fleet):
            continue
        if pool.strategy.name in _AFFINITY:
            message = (
                f"'{pool.strategy.name}' moves a lost server's keys to the other servers, not to the backup: "
                f"'{spare.name}' gets nothing until all of them are gone"
            )
            yield Finding((*spare.path, "backup"), message)


def _is_refused(fleet: Fleet) -> bool:
    # A target that knows no backup there says so itself, as an error.
    return any(
        not TARGETS[target.name].abilities.backup_beside_affinity and "strategy" not in target.without
        for target in fleet.targets
    )


def _waits(pool: Pool) -> bool:
    """Tell whether requests may have to wait for servers of this pool."""
    return pool.capped or kv_of(pool) is not None  # its agent finds the caps


def pack_without_cap(fleet: Fleet) -> Iterator[Finding]:
    """Find `pack` where a server never counts as full."""
    for pool in fleet.pools:
        if pool.strategy.name == "pack" and any(pool.cap(server) is None for server in pool.servers):
            message = (
                f"without a cap the first server of '{pool.name}' is never full, and takes every request"
            )
            yield Finding((*pool.path, "strategy"), message)


def pack_with_weights(fleet: Fleet) -> Iterator[Finding]:
    """Find weights where `pack` ignores them."""
    for pool in fleet.pools:
        if pool.strategy.name != "pack":
            continue
        for server in pool.servers:
            if server.weight > 1:
                message = f"'pack' fills servers in their order: the weight of '{server.name}' has no effect"
                yield Finding((*server.path, "weight"), message)


def queue_without_cap(fleet: Fleet) -> Iterator[Finding]:
    """Find queues in front of servers that never refuse."""
    if not targets_that(fleet, lambda able: able.queues):
        return
    for pool in fleet.pools:
        place = (*pool.path, "queue")
        if not _waits(pool) and fleet.origins.written(place):
            yield Finding(
                place, f"no server of '{pool.name}' has a cap, so that nothing ever waits in this queue"
            )


def priority_without_queue(fleet: Fleet) -> Iterator[Finding]:
    """Find priorities where no pool queues."""
    if any(_waits(pool) for pool in fleet.pools):
        return
    message = "priorities order the requests that wait, and no pool has a cap that would make one wait"
    for client in fleet.clients:
        place = (*client.path, "priority")
        if fleet.origins.written(place):
            yield Finding(place, message)
    for route, _ in routes_with_pools(fleet):
        if route.priority is not None:
            yield Finding((*route.path, "priority"), message)


def too_few_connections(fleet: Fleet) -> Iterator[Finding]:
    """Find limits on connections below what the servers may hold."""
    total = sum(pool.cap(server) or 0 for pool in fleet.pools for server in pool.servers)
    for target in fleet.targets:
        room = TARGETS[target.name].room(target)
        needed = max(room.least, room.per_request * total if room.whole else 0)
        place = (*(target.path or ("targets", target.name)), room.key)
        if room.connections < needed and fleet.origins.written(place):
            reason = _reason(room, TARGETS[target.name].title, total, needed)
            yield Finding(place, f"{room.connections} connections are too few: {reason}")


def _reason(room: Room, title: str, total: int, needed: int) -> str:
    uses = f"{title} uses {'two' if room.per_request == 2 else room.per_request} for each"
    if needed == room.least:
        return f"{uses} request, beside idle clients and kept-alive servers"
    also = f", and {uses}" if room.per_request > 1 else ""
    return f"the servers may hold {total} requests together{also}"


RULES = (
    Rule(
        "zero-weights",
        Severity.ERROR,
        "every server of a pool has weight 0",
        "Weight 0 means drained: the server gets no new requests. A pool in which all servers are "
        "drained answers 503.",
        "give at least one server a weight of 1 or more; or 'allow_empty: true' and no servers",
        zero_weights,
    ),
    Rule(
        "no-server-up",
        Severity.WARNING,
        "every server of a pool is `drain` or `down`",
        "The pool answers 503 until a server is up again. This is often the unintended result of an overlay.",
        "set 'state: up' on at least one server",
        no_server_up,
    ),
    Rule(
        "only-backups",
        Severity.ERROR,
        "every server of a pool is a backup",
        'NGINX does not start ("no servers in upstream", seen on 1.22.1); HAProxy uses the first backup '
        "alone.",
        "remove 'backup: true' from the servers that should serve",
        only_backups,
    ),
    Rule(
        "backup-with-affinity",
        Severity.WARNING,
        "a backup beside `session` or `prefix`",
        "When a server is lost, hashing moves its keys to the other servers. HAProxy's backups are "
        "used only when all others are gone. NGINX refuses the combination, with hashing and with "
        "`random_two`.",
        "make it a server like the others, or a separate pool that 'when_down' of a split names",
        backup_with_affinity,
    ),
    Rule(
        "pack-without-cap",
        Severity.ERROR,
        "`pack` without `max_in_flight`",
        "`pack` fills one server before it uses the next, and only the cap says when a server is full.",
        "write 'max_in_flight', a little above the slots of the engine",
        pack_without_cap,
    ),
    Rule(
        "pack-with-weights",
        Severity.WARNING,
        "`pack` with weights",
        "`pack` uses only the order and the caps; HAProxy's `first` silently ignores weights.",
        "write 'max_in_flight' per server to tell large from small",
        pack_with_weights,
    ),
    Rule(
        "queue-without-cap",
        Severity.WARNING,
        "`queue` is set, and no server has a cap",
        "HAProxy only holds requests back from servers that are at their cap. Without a cap all "
        "requests go straight to the engines, whose queues have no order and no limit, and cannot "
        "hand a request to another server.",
        "write 'max_in_flight': between the engine's slots and twice as many",
        queue_without_cap,
    ),
    Rule(
        "priority-without-queue",
        Severity.WARNING,
        "priorities are set, and no pool has a cap",
        "A priority decides who leaves the balancer's queue first. Without `max_in_flight` no request"
        " waits there.",
        "write 'max_in_flight' in the pool: between the engine's slots and twice as many",
        priority_without_queue,
    ),
    Rule(
        "too-few-connections",
        Severity.WARNING,
        "`connections` or `max_connections` is below what the servers may hold",
        "Streams keep their connections for minutes. NGINX needs two for each request and refuses "
        "those beyond `worker_connections`; in HAProxy further clients wait where no queue, limit or "
        "log of the fleet sees them.",
        "leave the key out, or write at least twice the sum of the caps",
        too_few_connections,
    ),
)
