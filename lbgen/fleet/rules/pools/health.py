"""Rules about health: which server counts as able to work, and what takes it out of rotation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.fleet.rules.rule import MINUTE, Finding, Rule, engine_of, spoken, targets_that
from lbgen.problems import Severity
from lbgen.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines import Engine
    from lbgen.model import Fleet, Health, Pool

_LYING = ("/v1/models", "/models", "/api/tags", "/api/ps", "/metrics")
"""Answered from a list, while no model is loaded."""
_COSTLY = {"litellm": ("/health", "/health/")}
"""Paths that ask every model behind the engine."""
_LONG_WINDOW = MINUTE
_ABSURD_WINDOW = 10 * MINUTE
_SHORTEST_CHECK = 1_000
_SLOW_HEALTH = {"sglang": 2_000}
"""Engines whose health answer takes about a second by itself."""
_HASTY = 5_000
_LATE = 5 * MINUTE


def _written(fleet: Fleet, pool: Pool, key: str) -> bool:
    return fleet.origins.written((*pool.path, "health", key))


def _checks(fleet: Fleet) -> Iterator[tuple[Pool, Health, Engine]]:
    for pool in fleet.pools:
        if pool.health is not None:
            yield pool, pool.health, engine_of(pool)


def _paths(fleet: Fleet) -> Iterator[tuple[Pool, str, Engine]]:
    for pool, health, engine in _checks(fleet):
        if health.path is not None and _written(fleet, pool, "path"):
            yield pool, health.path.partition("?")[0], engine


def lying_readiness(fleet: Fleet) -> Iterator[Finding]:
    """Find paths that answer 200 before a model can."""
    for pool, path, engine in _paths(fleet):
        if path in _LYING and path not in engine.health_paths:
            message = (
                f"'{path}' answers 200 while {engine.title} still loads, or hangs: it is no sign of readiness"
            )
            better = f"write {engine.health_path}" if engine.health_path else "ask a path that runs the model"
            yield Finding((*pool.path, "health", "path"), message, better)


def costly_health_path(fleet: Fleet) -> Iterator[Finding]:
    """Find paths that make the engine call every model it knows."""
    for pool, path, engine in _paths(fleet):
        if path in _COSTLY.get(engine.name, ()):
            message = (
                f"each check of '{path}' makes {engine.title} call every model behind it, and pay for it"
            )
            yield Finding((*pool.path, "health", "path"), message, f"write {engine.health_path}")


def unknown_health_path(fleet: Fleet) -> Iterator[Finding]:
    """Find paths that the named engine does not have."""
    for pool, path, engine in _paths(fleet):
        known = engine.health_paths
        if not known or path in known or path in _LYING or path in _COSTLY.get(engine.name, ()):
            continue
        message = f"{engine.title} is not known to answer '{path}'; where it is 404, every request gets 503"
        yield Finding((*pool.path, "health", "path"), message, f"known are {', '.join(known)}")


def health_off(fleet: Fleet) -> Iterator[Finding]:
    """Find `health: false` where a target checks servers by itself, when told to."""
    titles = " and ".join(target.title for target in targets_that(fleet, lambda able: able.active_checks))
    for pool in fleet.pools:
        place = (*pool.path, "health")
        if pool.health is None and fleet.origins.written(place) and titles:
            yield Finding(place, f"{titles} goes on sending requests to a dead server of '{pool.name}'")


def short_health_timeout(fleet: Fleet) -> Iterator[Finding]:
    """Find `timeout` of a check below what a busy engine needs."""
    for pool, health, engine in _checks(fleet):
        least = _SLOW_HEALTH.get(engine.name, _SHORTEST_CHECK) if health.path else _SHORTEST_CHECK
        if health.timeout < least and _written(fleet, pool, "timeout"):
            shown = format_duration(health.timeout)
            needs = (
                "takes about a second by itself"
                if engine.name in _SLOW_HEALTH
                else "may take a second when busy"
            )
            message = f"a check is lost after {shown}, but a health answer of {engine.title} {needs}"
            yield Finding((*pool.path, "health", "timeout"), message)


def hasty_ejection(fleet: Fleet) -> Iterator[Finding]:
    """Find checks that take a server out in a few seconds."""
    for pool, health, _ in _checks(fleet):
        keys = [key for key in ("fall", "interval") if _written(fleet, pool, key)]
        if keys and (health.fall == 1 or health.fall * health.interval < _HASTY):
            shown = format_duration(health.fall * health.interval)
            checks = "one lost check" if health.fall == 1 else f"{health.fall} lost checks in {shown}"
            message = (
                f"{checks} put a server out of rotation: a long prefill is enough, and it hits all at once"
            )
            yield Finding((*pool.path, "health", keys[0]), message)


def late_ejection(fleet: Fleet) -> Iterator[Finding]:
    """Find checks that leave a hung server in rotation for minutes."""
    for pool, health, _ in _checks(fleet):
        keys = [key for key in ("interval", "fall", "timeout") if _written(fleet, pool, key)]
        delay = health.fall * max(health.interval, health.timeout)
        if keys and delay > _LATE:
            message = f"a server that hangs keeps getting requests for {spoken(delay)}"
            yield Finding((*pool.path, "health", keys[0]), message)


def failure_window(fleet: Fleet) -> Iterator[Finding]:
    """Find passive ejections of over a minute; over ten minutes they are errors."""
    for pool in fleet.pools:
        passive = pool.passive_health
        for key, value in (("window", passive.window), ("eject", passive.eject)):
            place = (*pool.path, "passive_health", key)
            if value <= _LONG_WINDOW or passive.failures == 0 or not fleet.origins.written(place):
                continue
            shown = format_duration(value)
            said = (
                ""
                if shown.replace(" ", "") == spoken(value).replace("min", "m").replace(" ", "")
                else spoken(value)
            )
            time = f"{shown} is {said}: " if said else f"{shown}: "
            message = f"{time}so long {passive.failures} slow answers put a healthy server out of rotation"
            yield Finding(place, message, severity=Severity.ERROR if value > _ABSURD_WINDOW else None)


def single_failure_ejects(fleet: Fleet) -> Iterator[Finding]:
    """Find passive ejection by the first failure."""
    for pool in fleet.pools:
        place = (*pool.path, "passive_health", "failures")
        if pool.passive_health.failures == 1 and fleet.origins.written(place):
            yield Finding(place, "one request that times out puts its server out of rotation, healthy or not")


RULES = (
    Rule(
        "lying-readiness",
        Severity.WARNING,
        "`health.path` is a path that answers 200 whether or not a model can",
        "`/v1/models` of SGLang, vLLM and llama.cpp and `/api/tags` of Ollama only list models: they "
        "answered 200 while the weights were loading (gpustack#6203), and 200 for 85 minutes while an"
        " engine was deadlocked (Fastllm-proxy#19).",
        "write the engine's own health path, or leave 'path' out: naming the engine selects it",
        lying_readiness,
    ),
    Rule(
        "costly-health-path",
        Severity.WARNING,
        "`health.path` makes LiteLLM call every model",
        "LiteLLM's `/health` sends a prompt to each model behind it: one slow provider fails the "
        "check, and every check costs money (LiteLLM docs, health checks).",
        "write /health/readiness",
        costly_health_path,
    ),
    Rule(
        "unknown-health-path",
        Severity.WARNING,
        "`health.path` is not one that the named engine is known to have",
        "A path that does not exist is answered with 404, which fails the check. When all servers "
        "fail their checks, every request gets 503. This happened on a public Ollama fleet with "
        "`/api/health`.",
        "write a path that the engine has, or 'engine: openai' where the server is something else",
        unknown_health_path,
    ),
    Rule(
        "health-off",
        Severity.WARNING,
        "`health: false` with HAProxy",
        "Without checks HAProxy cannot tell that a server is down: each request sent to a dead server"
        " waits for the connect timeout and is retried, and a request sent to a hung server is lost.",
        "write 'health: tcp' where there is no such path: that alone finds servers that are gone",
        health_off,
    ),
    Rule(
        "short-health-timeout",
        Severity.WARNING,
        "`health.timeout` is under 1 second, or under 2 seconds for SGLang",
        "SGLang's `/health` takes about 1.0 s even when idle, and a busy engine answers late "
        "(llama-swap#276). If all checks fail, HAProxy sends requests to no server at all. A limit of"
        " 10 s ejected an entire busy vLLM fleet (ray#54070).",
        "write 5s, the default",
        short_health_timeout,
    ),
    Rule(
        "hasty-ejection",
        Severity.WARNING,
        "`health.fall` and `health.interval` eject a server within 5 seconds, or by one check",
        "During a long prefill engines answer 503 or nothing (sglang#22511), and at peak load all "
        "servers do so at the same time. The load of an ejected server then falls on the others, "
        "which fail next.",
        "write 'interval: 5s' and 'fall: 3', the defaults",
        hasty_ejection,
    ),
    Rule(
        "late-ejection",
        Severity.WARNING,
        "`health.interval`, `timeout` and `fall` leave a hung server in rotation for over 5 minutes",
        "A hung engine accepts connections but never answers. No connection fails, so nothing is "
        "retried, and its share of all requests is lost until the checks have failed.",
        "write 'interval: 5s' and 'fall: 3', the defaults",
        late_ejection,
    ),
    Rule(
        "failure-window",
        Severity.WARNING,
        "`passive_health` ejects for over 60 seconds; over 10 minutes it is an error",
        "`fail_timeout` is also how long NGINX leaves a server out. vLLM's sample has 10000s: after "
        "six slow answers, every request gets 502 for 2 h 46 min although both servers are healthy "
        "(seen on NGINX 1.22.1).",
        "write 10s, the default: the server is tried again after that",
        failure_window,
    ),
    Rule(
        "single-failure-ejects",
        Severity.WARNING,
        "`passive_health.failures` is 1",
        "A timeout says more about the prompt than about the server. If one failure ejects a server, "
        "a few long prompts take out the whole pool.",
        "write 3, the default; or 0, so that only checks eject",
        single_failure_ejects,
    ),
)
