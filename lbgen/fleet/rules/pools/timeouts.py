"""Rules about time: answers of an LLM take minutes, and nothing may cut them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.fleet.rules.rule import MINUTE, Finding, Rule, engine_of, routes_with_pools
from lbgen.problems import Severity
from lbgen.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Pool, Timeouts
    from lbgen.problems import Path

_PATIENCE = 5 * MINUTE
_CLIENT_PATIENCE = 10 * MINUTE
"""OpenAI's SDKs give up after 600 s by default."""
_LONG_CONNECT = 30_000

_COST = {
    "first_byte": "gives up when no byte has come in {0}: long prompts, queues and cold models take longer",
    "idle": "cuts an answer in which {0} pass between two bytes, with status 200 and in the middle",
}


def short_read_timeout(fleet: Fleet) -> Iterator[Finding]:
    """Find `first_byte` and `idle` below five minutes where an LLM answers."""
    for path, timeouts in _llm_timeouts(fleet):
        for key, cost in _COST.items():
            value = getattr(timeouts, key)
            place = (*path, "timeouts", key)
            if value is not None and value < _PATIENCE and fleet.origins.written(place):
                yield Finding(place, f"'{key}' {cost.format(format_duration(value))}")


def _llm_timeouts(fleet: Fleet) -> Iterator[tuple[Path, Timeouts]]:
    for pool in fleet.pools:
        if engine_of(pool).llm:
            yield pool.path, pool.timeouts
    for route, pools in routes_with_pools(fleet):
        if any(engine_of(pool).llm for pool in pools):
            yield route.path, route.timeouts


def long_connect_timeout(fleet: Fleet) -> Iterator[Finding]:
    """Find `connect` above half a minute."""
    for pool in fleet.pools:
        value = pool.timeouts.connect
        place = (*pool.path, "timeouts", "connect")
        if value is not None and value > _LONG_CONNECT and fleet.origins.written(place):
            shown = format_duration(value)
            yield Finding(
                place, f"a server that is gone holds each request for {shown} before another is tried"
            )


def short_tunnel(fleet: Fleet) -> Iterator[Finding]:
    """Find `tunnel` below five minutes where WebSockets may come."""
    for pool in _websocket_pools(fleet):
        value = pool.timeouts.tunnel
        place = (*pool.path, "timeouts", "tunnel")
        if value is not None and value < _PATIENCE and fleet.origins.written(place):
            shown = format_duration(value)
            yield Finding(
                place, f"a WebSocket that is silent for {shown} is cut, while its user reads or types"
            )


def tunnel_without_websocket(fleet: Fleet) -> Iterator[Finding]:
    """Find `tunnel` on pools that no WebSocket reaches."""
    reached = {pool.name for pool in _websocket_pools(fleet)}
    for pool in fleet.pools:
        place = (*pool.path, "timeouts", "tunnel")
        if pool.name not in reached and fleet.origins.written(place):
            yield Finding(place, f"no listener passes WebSockets on to '{pool.name}': 'tunnel' has no effect")


def _websocket_pools(fleet: Fleet) -> Iterator[Pool]:
    names = {
        name
        for listener in fleet.listeners
        for route in listener.routes
        if listener.tunnels(route)
        for name in route.pools
    }
    return (pool for pool in fleet.pools if pool.name in names)


def keepalive_outlives_engine(fleet: Fleet) -> Iterator[Finding]:
    """Find idle connections that are kept for as long as the engine keeps them, or longer."""
    for pool in fleet.pools:
        engine = engine_of(pool)
        if pool.keepalive is None or engine.keep_alive is None or engine.name == "http":
            continue
        place = (*pool.path, "keepalive", "idle_timeout")
        if pool.keepalive.idle_timeout >= engine.keep_alive and fleet.origins.written(place):
            kept, closed = format_duration(pool.keepalive.idle_timeout), format_duration(engine.keep_alive)
            yield Finding(
                place,
                f"idle connections are kept for {kept}, but {engine.title} closes them after {closed}: "
                "a POST on a connection that has just been closed ends as 502",
                f"write {format_duration(engine.idle_timeout)}, or raise the engine's own keep-alive",
            )


def long_queue_timeout(fleet: Fleet) -> Iterator[Finding]:
    """Find queues in which requests outlive their clients."""
    for pool in fleet.pools:
        place = (*pool.path, "queue", "timeout")
        if pool.queue.timeout >= _CLIENT_PATIENCE and fleet.origins.written(place):
            shown = format_duration(pool.queue.timeout)
            yield Finding(place, f"a request may wait for {shown}, longer than its client does")


def drain_cuts_answers(fleet: Fleet) -> Iterator[Finding]:
    """Find a `drain_timeout` below the read timeouts."""
    longest = max((_read_timeout(timeouts) for _, timeouts in _llm_timeouts(fleet)), default=0)
    for target in fleet.targets:
        place = (*(target.path or ("targets", target.name)), "drain_timeout")
        if target.drain_timeout < longest and fleet.origins.written(place):
            shown, longest_shown = format_duration(target.drain_timeout), format_duration(longest)
            yield Finding(
                place,
                f"each reload cuts answers after {shown}, where they may be silent for {longest_shown}",
                f"write {longest_shown} or more",
            )


def _read_timeout(timeouts: Timeouts) -> int:
    return max(timeouts.first_byte or 0, timeouts.idle or 0)


RULES = (
    Rule(
        "short-read-timeout",
        Severity.WARNING,
        "`timeouts.first_byte` or `timeouts.idle` is under 5 minutes in front of an LLM",
        "The first byte has to wait for the queue, the prompt and sometimes for the model to load; a "
        "reasoning model takes 5 to 10 minutes. With a short timeout the client gets 504 and retries,"
        " and the same prompt is computed three times (singnet/Omega PR#351). A busy engine can also "
        "pause between two tokens: HAProxy then cuts off an answer that began with status 200 "
        "(haproxy#182).",
        "write 10m, the default: OpenAI's SDKs themselves wait 10 minutes",
        short_read_timeout,
    ),
    Rule(
        "long-connect-timeout",
        Severity.WARNING,
        "`timeouts.connect` is over 30 seconds",
        "Inference servers accept connections within milliseconds however busy they are, because the "
        "kernel does it. A longer connect means that the machine is gone, and the request waits all "
        "that time.",
        "write 3s, the default",
        long_connect_timeout,
    ),
    Rule(
        "short-tunnel",
        Severity.WARNING,
        "`timeouts.tunnel` is under 5 minutes for a pool that WebSockets reach",
        "A chat's WebSocket carries no traffic while the user reads or types. If it is closed, the "
        "chat appears to hang in Open WebUI and LibreChat.",
        "write 1h, the default",
        short_tunnel,
    ),
    Rule(
        "tunnel-without-websocket",
        Severity.WARNING,
        "`timeouts.tunnel` is set for a pool that no WebSocket reaches",
        "This timeout applies only after an upgrade, and no listener in front of the pool allows "
        "upgrades. It has no effect on streamed answers (SSE) either: `idle` limits those.",
        "write 'websocket: true' in the listener, or remove the key",
        tunnel_without_websocket,
    ),
    Rule(
        "keepalive-outlives-engine",
        Severity.WARNING,
        "`keepalive.idle_timeout` is not below the engine's own",
        "uvicorn, and with it vLLM, SGLang and LiteLLM, closes idle connections after 5 s. A balancer"
        " that keeps them longer occasionally sends a POST into a closed connection. Because a POST "
        "must not be repeated, the client gets 502, and the healthy server is marked as failed (llm-d"
        " PR#1564, kserve#5446).",
        "stay a second below the engine's keep-alive",
        keepalive_outlives_engine,
    ),
    Rule(
        "long-queue-timeout",
        Severity.WARNING,
        "`queue.timeout` is 10 minutes or more",
        "OpenAI's SDKs give up after 10 minutes and send the request again. Requests that are still "
        "queued by then are computed although nobody waits for them, ahead of those that somebody "
        "waits for.",
        "write 60s, the default: an early 503 with Retry-After is more useful than an answer nobody "
        "waits for",
        long_queue_timeout,
    ),
    Rule(
        "drain-cuts-answers",
        Severity.WARNING,
        "a target's `drain_timeout` is shorter than the read timeouts",
        "After a reload the old processes finish their requests, but only for this long. If it is "
        "shorter than the read timeout, each reload cuts off answers that were allowed to take "
        "longer.",
        "write the longest read timeout, or more",
        drain_cuts_answers,
    ),
)
