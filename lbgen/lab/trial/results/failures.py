"""Why requests of a trial failed: by status, rule and client, with the key of the fleet that would help."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lbgen.lab.load import Result
    from lbgen.model import Fleet, Listener, Pool

TOLERATED = 0.01
"""Share of a run's requests that may fail before the trial does."""


class Failure(NamedTuple):
    """So many requests that failed alike."""

    reason: str
    """A status, an exception's name, or ``cut short``."""
    code: str | None
    """What the answer's error says of itself, in OpenAI's form."""
    client: str | None
    """Whose key they had, where the listener asks for one."""
    times: int


def reason_of(result: Result) -> str:
    """Return what was wrong with an answer."""
    return result.error or (str(result.status) if result.status != 200 else "cut short")


def failures(results: Iterable[Result]) -> tuple[Failure, ...]:
    """Return what failed, the most frequent first."""
    counted = Counter((reason_of(one), _code(one), one.planned.client) for one in results if not one.ok)
    return tuple(Failure(*kind, count) for kind, count in counted.most_common())


def told(found: Sequence[Failure], fleet: Fleet, listener: Listener, pool: Pool) -> Iterator[str]:
    """Yield a line for each kind of failure: how many, what, whose, and which keys decide it."""
    for one in found:
        keys = keys_for(one, fleet, listener, pool)
        hint = f"; see {' or '.join(keys)}" if keys else ""
        yield f"{plain(one)}{hint}{_without(one, fleet, listener)}"


def _without(one: Failure, fleet: Fleet, listener: Listener) -> str:
    """Return how to try without a client whose limit is below its share; empty where others do not remain."""
    names = {client.name for client in fleet.clients}
    if one.reason != "429" or one.client not in names or "." in one.client:
        return ""
    if len(names) == 1 or set(listener.auth.clients) != names or not _client_keys(one.client, fleet):
        return ""
    return f" (all clients send alike; '--set clients.{one.client}=null' leaves it out)"


def plain(one: Failure) -> str:
    """Return how many requests failed, how, and whose they were."""
    code = f" ({one.code})" if one.code else ""
    who = f" for client {one.client}" if one.client else ""
    return f"{one.times} x {one.reason}{code}{who}"


def keys_for(one: Failure, fleet: Fleet, listener: Listener, pool: Pool) -> list[str]:
    """Return the keys that decide such failures: of those that this fleet has."""
    if one.reason == "429":
        return [*_client_keys(one.client, fleet), *_listener_keys(listener)]
    if one.reason == "503":
        capped = any(pool.cap(server) is not None for server in pool.servers)
        return [f"pools.{pool.name}.{key}" for key in ("max_in_flight", "queue")] if capped else []
    if one.reason == "504":
        return [f"pools.{pool.name}.timeouts"]
    if one.reason == "413":
        return [f"listeners.{listener.name}.max_body", f"listeners.{listener.name}.inspect"]
    if one.reason in {"401", "403"}:
        return [f"listeners.{listener.name}.auth"]
    return []


def _client_keys(name: str | None, fleet: Fleet) -> list[str]:
    return [
        f"clients.{client.name}.{key}"
        for client in fleet.clients
        if client.name == name
        for key, value in (("max_in_flight", client.max_in_flight), ("rate", client.rate))
        if value is not None
    ]


def _listener_keys(listener: Listener) -> list[str]:
    return [f"listeners.{listener.name}.limits"] if listener.limits else []


def _code(result: Result) -> str | None:
    if result.error or result.status == 200:
        return None
    try:
        code = json.loads(result.tail)["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return None
    return code if isinstance(code, str) else None
