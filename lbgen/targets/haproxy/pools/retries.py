"""Second tries: what is tried again, and what never is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.features import has

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Pool, TargetSettings

_WORDS = {
    "connect": "conn-failure",
    "reset": "empty-response",
    "timeout": "response-timeout",
    "429": "429",
    "502": "502",
    "503": "503",
    "504": "504",
}


def retry_lines(pool: Pool, settings: TargetSettings) -> Iterator[str]:
    """Yield the options of a backend's tries."""
    words = [
        _WORDS[reason] for reason in pool.retry.on if reason != "429" or has(settings.version, "retry_on_429")
    ]
    if not pool.retry.attempts or not words:
        yield "retries 0"
        return
    yield f"retries {pool.retry.attempts}"
    # Another server at once, at every try.
    yield "option redispatch 1"
    if words != ["conn-failure"]:  # HAProxy's default
        yield f"retry-on {' '.join(words)}"
    if pool.retry.repeats and pool.retry.replay_posts:
        # Only what is still in the buffer can be sent again (seen: larger bodies are never retried).
        yield "option http-buffer-request"


def retry_rules(pool: Pool) -> Iterator[str]:
    """Yield the rule that keeps a request that was already sent from being sent twice."""
    if pool.retry.repeats and not pool.retry.replay_posts:
        yield "http-request disable-l7-retry if { method POST PATCH LOCK }"
