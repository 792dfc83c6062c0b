"""Second tries: what is tried again, and what never is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.envoy.language.words import Node, duration, regex

if TYPE_CHECKING:
    from lbgen.model import Pool

_WORDS = {"connect": "connect-failure,refused-stream", "reset": "reset", "timeout": "reset"}
_UNSENT = ("connect",)
_SAFE = "GET|HEAD|OPTIONS|PUT|DELETE"


def safe_methods() -> Node:
    """Return the condition on methods that do no work twice when they are sent twice."""
    return {"name": ":method", "string_match": regex(_SAFE)}


def waits_again(pool: Pool, *, again: bool) -> bool:
    """Tell whether a request that a server was silent about is sent to another one."""
    silent = {"reset", "timeout"} & set(pool.retry.on)
    return bool(pool.retry.attempts and silent) and (again or pool.retry.replay_posts)


def retry_policy(pool: Pool, first_byte: int | None, *, again: bool) -> Node:
    """Return what a route tries again, and how long a server may take for the first byte.

    `again`: also what a server has seen, for requests that may be sent twice.
    """
    reasons = [reason for reason in pool.retry.on if reason in _UNSENT or again or pool.retry.replay_posts]
    policy: Node = {"num_retries": {"value": pool.retry.attempts if reasons else 0}}
    words = list(dict.fromkeys(_WORDS[reason] for reason in reasons if reason in _WORDS))
    statuses = [int(reason) for reason in reasons if reason not in _WORDS]
    if statuses:
        words.append("retriable-status-codes")
        policy["retriable_status_codes"] = statuses
    if words and pool.retry.attempts:
        policy["retry_on"] = ",".join(words)
        policy["#"] = "Retry on another server."
        policy["retry_host_predicate"] = [previous_hosts()]
        policy["host_selection_retry_max_attempts"] = 5
        policy["retry_back_off"] = {"base_interval": "0.025s"}
    if first_byte:
        policy["per_try_timeout"] = duration(first_byte)
    return {"retry_policy": policy}


def previous_hosts() -> Node:
    """Return what keeps a further try from the servers that were tried."""
    kind = "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
    return {"name": "envoy.retry_host_predicates.previous_hosts", "typed_config": {"@type": kind}}
