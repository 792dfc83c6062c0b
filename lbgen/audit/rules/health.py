"""Who is taken out of rotation, and who should be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.audit.rule import AuditRule, Finding
from lbgen.audit.values import haproxy_time, nginx_time, number
from lbgen.engines import ENGINES
from lbgen.fleet.rules.rule import spoken
from lbgen.problems import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.audit.haproxy_view import HaproxyView, Pool
    from lbgen.audit.nginx_view import NginxView, Upstream
    from lbgen.readers.haproxy import Server

_QUIET_LIMIT = 30_000
_QUIET_ASKED = 60_000
"""What 'check' lets a fleet file say without a word."""
_NGINX_WINDOW = 10_000
_SHORT_CHECK = 2_000
_STATUSES = ("http_500", "http_502", "http_503", "http_504", "http_429", "http_403", "http_404")
_LYING = {
    "/v1/models": "lists the model before it is loaded and while the engine hangs",
    "/api/tags": "lists files on disk, whatever the state of the engine",
    "/v2/health/live": "says that the process is running, not that a model is loaded",
    "/metrics": "is answered before a model is loaded",
    "/docs": "is answered before a model is loaded",
    "/version": "is answered before a model is loaded",
}
_OWN_HEALTH = r"/(?:health|ready|readyz|health/ready)/?"


def _nginx_ejection(view: NginxView) -> Iterator[Finding]:
    for upstream in view.upstreams:
        if len(upstream.servers) > 1:
            yield from _windows(upstream, _QUIET_ASKED if view.generated else _QUIET_LIMIT)
        for one in view.passes_to(upstream) if len(upstream.servers) > 1 else ():
            said = one.level.first("proxy_next_upstream")
            counted = [arg for arg in said.args if arg in _STATUSES[:5]] if said else []
            if said is not None and counted and any(_ejects(server) for server in upstream.servers):
                yield Finding(
                    said.location,
                    f"{', '.join(counted)} in proxy_next_upstream count as failures of the server: an"
                    " engine that is only busy is taken out of rotation, the others get its load and are"
                    " taken out as well",
                    "proxy_next_upstream error timeout;",
                )


def _ejects(server: object) -> bool:
    return server.parameter("max_fails") != "0"  # type: ignore[attr-defined, no-any-return]


def _windows(upstream: Upstream, limit: int) -> Iterator[Finding]:
    said = [server for server in upstream.active if _ejects(server) and server.parameter("fail_timeout")]
    for server in said[:1]:
        window = nginx_time(server.parameter("fail_timeout") or "")
        if window is not None and window > limit:
            fails = server.parameter("max_fails") or "1"
            yield Finding(
                server.location,
                f"fail_timeout={server.parameter('fail_timeout')}: after {fails} failures, such as"
                f" timeouts, a healthy server of '{upstream.name}' gets no requests for {spoken(window)};"
                " when this has happened to all, every client gets 502",
                "max_fails=3 fail_timeout=10s",
                Severity.ERROR if window > 600_000 else Severity.WARNING,
            )
    once = [server for server in upstream.active if server.parameter("max_fails") in {None, "1"}]
    if len(upstream.active) > 1 and once:
        window = nginx_time(once[0].parameter("fail_timeout") or "") or _NGINX_WINDOW
        share = "half" if len(upstream.active) == 2 else f"one in {len(upstream.active)}"
        by = "" if once[0].parameter("max_fails") else " (max_fails is 1 by default)"
        yield Finding(
            once[0].location,
            f"one failure{by}, such as one timeout, takes {share} of '{upstream.name}' out of rotation"
            f" for {spoken(window)}: the others get its load and are taken out as well",
            "max_fails=3 fail_timeout=10s on each server",
        )


def _haproxy_ejection(view: HaproxyView) -> Iterator[Finding]:
    for pool in view.pools:
        checked = [server for server in pool.servers if server.has("check")]
        for server in checked[:1]:
            yield from _hasty(pool, server)
        observed = [one for one in pool.servers if one.parameter("observe") == "layer7"]
        for server in observed[:1]:
            yield Finding(
                server.line.location,
                f"'observe layer7' counts 5xx responses as failures of a server of '{pool.name}': an"
                " engine that is only busy is taken out of rotation, the others get its load and are taken"
                " out as well",
                "remove 'observe' for engines, and check /health",
            )


def _hasty(pool: Pool, server: Server) -> Iterator[Finding]:
    inter_said = server.parameter("inter")
    inter = haproxy_time(inter_said) if inter_said else 2_000
    line = pool.section.last("timeout", "check")
    timeout = haproxy_time(line.words[2]) if line and len(line.words) > 2 else None
    fall = number(server.parameter("fall")) or 3
    if inter is not None and inter < 500:
        yield Finding(
            server.line.location,
            f"'inter {inter_said}' is {spoken(inter)} (a number without unit is milliseconds): each"
            f" server of '{pool.name}' is checked almost constantly, and one slow response takes it out of"
            " rotation",
            "inter 5s fall 3 rise 2, with timeout check 5s",
        )
    if timeout is not None and timeout < _SHORT_CHECK:
        yield Finding(
            line.location if line else server.line.location,
            f"'timeout check {spoken(timeout)}': under load, /health of SGLang, and of vLLM with long"
            " prompts, takes a second: busy servers are taken out of rotation, the others get their load and"
            " follow",
            "timeout check 5s",
        )
    if fall == 1 and pool.size > 1:
        yield Finding(
            server.line.location,
            f"'fall 1': one late response to a check takes a server of '{pool.name}' out of rotation",
            "fall 3",
        )


EJECTION = AuditRule(
    "ejection-hurts",
    Severity.WARNING,
    "healthy servers are taken out of rotation, or for too long",
    "A slow response does not mean that an engine has failed. With `max_fails=3 fail_timeout=10000s`,"
    " six timeouts left two healthy servers unused for 2 h 46 min (NGINX 1.22.1). Statuses in"
    " `proxy_next_upstream` count as failures even if the request is not retried.",
    "sets max_fails=3 fail_timeout=10s, counts only connection errors, and checks every 5 s with fall 3",
    _nginx_ejection,
    _haproxy_ejection,
)


def _nginx_unchecked(view: NginxView) -> Iterator[Finding]:
    for upstream in view.upstreams:
        never = [server for server in upstream.active if server.parameter("max_fails") == "0"]
        if (
            len(upstream.active) > 1
            and never
            and not view.generated
            and not upstream.directive.inside("check")
        ):
            yield Finding(
                never[0].location,
                "max_fails=0 and no health check (open-source NGINX has none): a dead server of"
                f" '{upstream.name}' keeps getting its share, and each of these requests waits until its"
                " connection fails",
                "max_fails=3 fail_timeout=10s; or use HAProxy, which can check /health",
            )


def _haproxy_unchecked(view: HaproxyView) -> Iterator[Finding]:
    for pool in view.pools:
        without = [one for one in pool.active if not one.has("check") and one.parameter("track") is None]
        if not without or view.generated:
            continue
        asked = pool.section.option("httpchk")
        declared = "; 'option httpchk' without 'check' has no effect" if asked else ""
        yield Finding(
            without[0].line.location,
            f"no 'check' at {len(without)} of {len(pool.active)} servers of '{pool.name}'{declared}: a"
            " server that is dead or still loading its model keeps getting requests",
            "default-server check inter 5s fall 3 rise 2, with option httpchk and http-check send meth GET"
            " uri /health ver HTTP/1.1 hdr Host localhost",
        )


UNCHECKED = AuditRule(
    "model-not-checked",
    Severity.WARNING,
    "servers are not checked",
    "A model takes minutes to load, and an engine that has lost its GPU still accepts connections.",
    "checks the engine's readiness path (HAProxy); open-source NGINX cannot, and takes a server out for"
    " 10 s after three failed connections in 10 s",
    _nginx_unchecked,
    _haproxy_unchecked,
)


def _says_yes(view: HaproxyView) -> Iterator[Finding]:
    for pool in view.pools:
        if not any(server.has("check") for server in pool.servers):
            continue
        path = pool.check_path
        place = pool.section.option("httpchk")
        engine = pool.engine
        ready = ENGINES[engine].health_path if engine in ENGINES else "/health"
        if path is None and engine and ready and not view.generated and not _scripted(pool):
            yield Finding(
                next(server.line.location for server in pool.servers if server.has("check")),
                f"'check' alone only opens a connection: {ENGINES[engine].title} accepts connections"
                f" while it loads its model and when it hangs, so requests of '{pool.name}' fail",
                f"option httpchk, and http-check send meth GET uri {ready} ver HTTP/1.1 hdr Host localhost",
            )
        elif path is not None and place is not None:
            plain = path.split("?", 1)[0]
            does = _LYING.get(plain)
            if plain == "/" and engine != "ollama" and not view.generated:
                does = "is answered by any program"
            if does:
                yield Finding(
                    place.location,
                    f"the check requests {plain}, which {does}: requests of '{pool.name}' may fail",
                    f"http-check send meth GET uri {ready or '/health'} ver HTTP/1.1 hdr Host localhost",
                )


def _scripted(pool: Pool) -> bool:
    return pool.section.option("tcp-check") is not None


def _nginx_own_health(view: NginxView) -> Iterator[Finding]:
    for level in view.whole.levels("location") if view.passes else ():
        path = level.block.args[-1] if level.block.args else ""
        said = level.block.inside("return")
        if re.fullmatch(_OWN_HEALTH, path) and said and said[0].value == "200":
            yield _always_yes(said[0].location, path)


def _haproxy_own_health(view: HaproxyView) -> Iterator[Finding]:
    for front in view.whole.all("frontend", "listen") if view.pools else ():
        for line in front.own("monitor-uri"):
            if not front.own("monitor", "fail") and re.fullmatch(_OWN_HEALTH, line.words[-1]):
                yield _always_yes(line.location, line.words[-1])
        for line in front.own("http-request", "return"):
            named = [one for one in front.own("acl") if set(one.words[1:2]) & set(line.words)]
            text = " ".join(word for one in (line, *named) for word in one.words)
            path = next((word for word in text.split() if re.fullmatch(_OWN_HEALTH, word)), None)
            if path and line.after("status") == "200" and "nbsrv" not in text:
                yield _always_yes(line.location, path)


def _always_yes(location: object, path: str) -> Finding:
    return Finding(
        location,  # type: ignore[arg-type]
        f"the balancer itself answers {path} with 200, whatever the state of its servers: a balancer in"
        " front keeps sending clients here when no server is available",
        "use separate paths for liveness and readiness; readiness returns 503 if nbsrv(POOL) is 0"
        " (HAProxy), or passes the request to the pool (NGINX)",
    )


def _both(view: HaproxyView) -> Iterator[Finding]:
    yield from _says_yes(view)
    yield from _haproxy_own_health(view)


SAYS_YES = AuditRule(
    "check-says-yes",
    Severity.WARNING,
    "a check succeeds although no model can answer",
    "A vLLM server with a hanging engine stayed in rotation for 85 minutes because the check requested"
    " `/v1/models`. While they load a model, SGLang and llama.cpp answer that path with 200, and `/health`"
    " with 503.",
    "checks each engine's readiness path, and has /lb/live and /lb/ready of its own",
    _nginx_own_health,
    _both,
)

RULES = (EJECTION, UNCHECKED, SAYS_YES)
