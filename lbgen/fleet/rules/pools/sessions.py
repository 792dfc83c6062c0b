"""Rules about what names a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.fleet.rules.rule import Finding, Rule, routed_pools
from lbgen.problems import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet

_MADE_BY_SERVERS = ("$.previous_response_id", "$.response_id")


def session_named_in_a_body(fleet: Fleet) -> Iterator[Finding]:
    """Find sessions that are named by what servers make in the bodies of their answers."""
    for pool in fleet.pools:
        name = pool.strategy.parameters.get("body")
        if name in _MADE_BY_SERVERS:
            message = (
                f"'{name}' is made by a server, in the body of its answer: the first request has none, and "
                "no balancer sees which server made it, so that follow-ups go to any server"
            )
            yield Finding((*pool.path, "strategy", "body"), message)


def shared_cookie(fleet: Fleet) -> Iterator[Finding]:
    """Find pools of one listener that set the same cookie."""
    setting = [(pool, pool.strategy.parameters.get("insert")) for pool in fleet.pools]
    setting = [(pool, name) for pool, name in setting if name]
    for listener in fleet.listeners if setting else ():
        first: dict[object, str] = {}
        routed = routed_pools(listener)
        for pool, name in setting:
            if pool.name not in routed:
                continue
            other = first.setdefault(name, pool.name)
            if other != pool.name:
                message = (
                    f"'{other}' sets the cookie '{name}' too, and '{listener.name}' leads to both: a client "
                    "that uses one pool forgets its server in the other"
                )
                yield Finding((*pool.path, "strategy", "insert"), message)


RULES = (
    Rule(
        "session-from-answer",
        Severity.WARNING,
        "a session is named by what a server makes in the body of its answer",
        "An answer may be a stream, which a balancer passes on without reading it.",
        'name it by something that the client chooses and repeats: body: "$.prompt_cache_key", '
        '"$.user", or a header',
        session_named_in_a_body,
    ),
    Rule(
        "shared-cookie",
        Severity.WARNING,
        "two pools of one listener set the same cookie",
        "A cookie names one server. If two pools set the same cookie, a request to one pool "
        "overwrites the other pool's server.",
        "give each pool its own cookie: insert: lb_NAME",
        shared_cookie,
    ),
)
