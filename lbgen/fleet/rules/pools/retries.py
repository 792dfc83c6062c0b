"""Rules about retries: a second try may be a second generation, and somebody pays for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.fleet.rules.rule import Finding, Rule, engine_of
from lbgen.problems import Severity
from lbgen.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet

_MANY = 3


def retry_pays_twice(fleet: Fleet) -> Iterator[Finding]:
    """Find retries after a server may have begun."""
    for pool in fleet.pools:
        place = (*pool.path, "retry", "on")
        late = [reason for reason in pool.retry.on if reason != "connect"]
        if not late or not pool.retry.attempts or not engine_of(pool).llm or not fleet.origins.written(place):
            continue
        reasons = ", ".join(late)
        if pool.retry.replay_posts:
            message = (
                f"after '{reasons}' a prompt is computed again, up to {pool.retry.attempts + 1} times in all"
            )
        else:
            message = (
                f"'{reasons}' comes after a server may have begun: a GET is run again; a prompt is a POST, "
                "and 'replay_posts: false' keeps those from being paid for twice"
            )
        yield Finding((*place, pool.retry.on.index(late[0])), message)


def replay_without_reason(fleet: Fleet) -> Iterator[Finding]:
    """Find `replay_posts` where only failed connections are retried."""
    for pool in fleet.pools:
        place = (*pool.path, "retry", "replay_posts")
        if pool.retry.replay_posts and set(pool.retry.on) <= {"connect"} and fleet.origins.written(place):
            message = (
                "a request whose connection failed was never sent: it is tried again without 'replay_posts'"
            )
            yield Finding(place, message)


def retry_out_of_time(fleet: Fleet) -> Iterator[Finding]:
    """Find retries after a timeout that is longer than the time for all tries."""
    for pool in fleet.pools:
        retry, place = pool.retry, (*pool.path, "retry", "on")
        read = max(pool.timeouts.first_byte or 0, pool.timeouts.idle or 0)
        if retry.within and "timeout" in retry.on and retry.within <= read and fleet.origins.written(place):
            within, waits = format_duration(retry.within), format_duration(read)
            message = (
                f"a timeout comes after {waits}, when the {within} of 'within' are over: it is never retried"
            )
            yield Finding(place, message)


def many_retries(fleet: Fleet) -> Iterator[Finding]:
    """Find more than three further tries."""
    for pool in fleet.pools:
        place = (*pool.path, "retry", "attempts")
        if pool.retry.attempts > _MANY and fleet.origins.written(place):
            tries = pool.retry.attempts + 1
            yield Finding(
                place, f"{tries} tries here, times the client's own, fall on servers that already fail"
            )


RULES = (
    Rule(
        "retry-pays-twice",
        Severity.WARNING,
        "`retry.on` names more than `connect`",
        "When `connect` fails, nothing has been computed. After any other failure a generation may "
        "have run or still be running, and a retry computes it again, on a fleet that is already "
        "slow. Measured: a POST answered with 503 ran three times on HAProxy 2.6, and the same prompt"
        " over 16 KB once, because only what fits the buffer is repeated.",
        "write 'on: [connect]', the default; the client handles a 503 and waits as Retry-After says",
        retry_pays_twice,
    ),
    Rule(
        "replay-without-reason",
        Severity.WARNING,
        "`retry.replay_posts` where only `connect` is retried",
        "If a connection is refused, the server has seen nothing of the request, so every method is "
        "retried anyway. The key has no effect now, but as soon as somebody adds a reason to `on`, "
        "prompts are computed twice.",
        "remove the key",
        replay_without_reason,
    ),
    Rule(
        "retry-out-of-time",
        Severity.WARNING,
        "`retry.on` has `timeout`, but `retry.within` is over before one can happen",
        "`within` limits all tries together. If the first one runs into the read timeout, no time is "
        "left, and the retry never happens.",
        "remove 'timeout' from 'on'",
        retry_out_of_time,
    ),
    Rule(
        "many-retries",
        Severity.WARNING,
        "`retry.attempts` is over 3",
        "Clients retry as well: OpenAI's SDKs do so twice. The numbers multiply, and they do so when "
        "the fleet is at its limit.",
        "write 1, the default",
        many_retries,
    ),
)
