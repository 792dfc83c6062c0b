"""Timeouts, retries, and what a reload cuts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.audit.haproxy_view import milliseconds
from lbgen.audit.nginx_view import QUICK
from lbgen.audit.rule import AuditRule, Finding
from lbgen.audit.values import haproxy_time, nginx_time
from lbgen.fleet.rules.rule import spoken
from lbgen.problems import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.audit.haproxy_view import HaproxyView, Pool
    from lbgen.audit.nginx_view import NginxView
    from lbgen.readers.haproxy import Section
    from lbgen.readers.nginx import Directive

_ENOUGH = 300_000
"""Milliseconds: what a long prompt and a long answer without a stream may take; SDKs wait for 600 s."""
_SHORT = 60_000
_NGINX_DEFAULT = 60_000


def _cut(milliseconds: int) -> Severity:
    return Severity.ERROR if milliseconds <= _SHORT else Severity.WARNING


def _nginx_timeout(view: NginxView) -> Iterator[Finding]:
    for one in (*view.passes, *view.calls):
        if one.answers_at_once:
            continue
        name = one.directive.name.replace("_pass", "_read_timeout")
        said = one.level.first(name)
        value = nginx_time(said.value) if said else _NGINX_DEFAULT
        if value is not None and value < _ENOUGH:
            by = "" if said else " by default"
            yield Finding(
                (said or one.directive).location,
                f"{name} is {spoken(value)}{by}: if the first byte takes longer (long prompt, response"
                " without streaming, model still loading), the client gets a 504, and its retry starts from"
                " the beginning",
                f"{name} 600s;",
                _cut(value),
            )


def _haproxy_timeout(view: HaproxyView) -> Iterator[Finding]:
    for pool in view.pools:
        if re.search(QUICK, pool.name):
            continue
        yield from _one_timeout(pool.section, "server", f"servers of '{pool.name}'")
    for front in view.fronts:
        yield from _one_timeout(front, "client", f"clients of '{front.name}'")
        for name in ("server", "connect", "queue"):
            for line in front.own("timeout", name) if front.kind == "frontend" else ():
                yield Finding(
                    line.location,
                    f"'timeout {name}' in a frontend is ignored: the value from defaults applies",
                    f"the same line in the backend or in defaults: timeout {name} {line.words[-1]}",
                    Severity.WARNING,
                )


def _one_timeout(section: Section, name: str, whose: str) -> Iterator[Finding]:
    value, line = milliseconds(section, name)
    if value is None or line is None or value >= _ENOUGH or value == 0:
        return
    bare = " (a number without unit is milliseconds)" if line.words[2].isdecimal() else ""
    does = (
        "a longer wait for the first byte is a 504, and a longer pause between two tokens ends the stream"
        " with status 200"
        if name == "server"
        else "a client that sends nothing for longer, as while it waits for tokens, is disconnected"
    )
    yield Finding(
        line.location,
        f"'timeout {name}' is {spoken(value)}{bare} for {whose}: {does}",
        f"timeout {name} 10m",
        _cut(value),
    )


TIMEOUT = AuditRule(
    "timeout-below-generation",
    Severity.ERROR,
    "a timeout is shorter than a response may take",
    "A reasoning model or a long prompt may take minutes to the first byte. OpenAI's SDK waits 600 s and"
    " retries twice, so the GPU may compute one prompt three times for nothing. `timeout tunnel` does not"
    " help, since HTTP streams are not tunnels.",
    "sets 10 minutes for both; a pool or route may set another value",
    _nginx_timeout,
    _haproxy_timeout,
)

_PAYS_TWICE = frozenset(
    {"all-retryable-errors", "response-timeout", "empty-response", "junk-response"}
    | {"401", "403", "404", "408", "425", "429", "500", "501", "502", "503", "504"}
)


def _nginx_retries(view: NginxView) -> Iterator[Finding]:
    blocks = (one.level.block for one in view.passes)
    passing = {block.value for block in blocks if block.value.startswith("@")}
    for one in view.passes:
        said = one.level.first("proxy_next_upstream")
        if said is not None and "non_idempotent" in said.args:
            yield Finding(
                said.location,
                "'non_idempotent' sends a prompt to a second server while the first may still be"
                " computing it: one request costs two generations, and an overloaded fleet gets even more"
                " work",
                "proxy_next_upstream error timeout; with proxy_next_upstream_tries 2;",
            )
        yield from _fallback(passing, one.level.all("error_page"))


def _fallback(passing: set[str], pages: tuple[Directive, ...]) -> Iterator[Finding]:
    for page in pages:
        if page.args and page.args[-1] in passing and {"502", "504"} & set(page.args[:-1]):
            yield Finding(
                page.location,
                f"an error page that proxies to servers ({page.args[-1]}) repeats a request that failed"
                " after it was sent: the prompt may be computed twice",
                "error_page 502 =503 /busy; where NGINX itself answers /busy",
                Severity.WARNING,
            )


def _haproxy_retries(view: HaproxyView) -> Iterator[Finding]:
    for pool in view.pools:
        line = pool.section.last("retry-on")
        twice = [word for word in (line.words[1:] if line else ()) if word in _PAYS_TWICE]
        if line is None or not twice or _blocks_replay(pool):
            continue
        yield Finding(
            line.location,
            f"'retry-on {' '.join(twice)}' repeats a request that a server has received and may be"
            f" computing: up to {1 + _retries(pool.section)} generations for one request. Requests larger"
            " than the buffer are not retried, so the effect depends on the length of the prompt",
            "retry-on conn-failure",
        )


def _blocks_replay(pool: Pool) -> bool:
    sections = (pool.section, *pool.fronts)
    return any(section.own("http-request", "disable-l7-retry") for section in sections)


def _retries(section: Section) -> int:
    line = section.last("retries")
    return int(line.words[1]) if line and len(line.words) > 1 and line.words[1].isdecimal() else 3


RETRIES = AuditRule(
    "generation-repeated",
    Severity.ERROR,
    "a retry may compute one prompt twice",
    "A POST that was answered with 503 was computed twice with `non_idempotent` and three times with"
    " `retry-on all-retryable-errors` (NGINX 1.22.1, HAProxy 2.6.12). Only a refused connection can be"
    " retried safely.",
    "retries only refused connections, unless the fleet sets 'replay_posts'",
    _nginx_retries,
    _haproxy_retries,
)


def _nginx_reload(view: NginxView) -> Iterator[Finding]:
    for said in view.whole.root.inside("worker_shutdown_timeout") if view.passes else ():
        value = nginx_time(said.value)
        if value is not None and value < _ENOUGH:
            yield Finding(
                said.location,
                f"{spoken(value)} after a reload the old workers end and cut off all streams that are not"
                " finished",
                "worker_shutdown_timeout 15m;",
            )


def _haproxy_reload(view: HaproxyView) -> Iterator[Finding]:
    line = view.global_line("hard-stop-after")
    value = haproxy_time(line.words[1]) if line and len(line.words) > 1 else None
    if line is not None and value is not None and value < _ENOUGH and view.pools:
        yield Finding(
            line.location,
            f"{spoken(value)} after a reload the old process ends and cuts off all streams that are not"
            " finished",
            "hard-stop-after 15m",
        )


RELOAD = AuditRule(
    "reload-cuts-streams",
    Severity.WARNING,
    "a reload cuts off streams that are not finished",
    "Each change of the configuration is a reload, and each reload cuts off the responses that take"
    " longer than this limit. Without a limit, an old process stays until its last stream ends.",
    "sets 15 minutes ('drain_timeout')",
    _nginx_reload,
    _haproxy_reload,
)


def _keepalive(view: NginxView) -> Iterator[Finding]:
    for upstream in view.upstreams:
        kept = upstream.directive.inside("keepalive")
        said = upstream.directive.inside("keepalive_timeout")
        value = nginx_time(said[-1].value) if said else _NGINX_DEFAULT
        closes = upstream.engine not in {"tgi", "ollama", "triton", "tei"} and not (
            view.generated and not upstream.engine
        )
        if kept and kept[-1].value != "0" and value is not None and value >= 5_000 and closes:
            by = "" if said else " by default"
            yield Finding(
                (said or kept)[-1].location,
                f"NGINX keeps idle connections to '{upstream.name}' for {spoken(value)}{by}, but Python's"
                " servers (vLLM, SGLang, LiteLLM) close them after 5 s: a POST sent at that moment gets a"
                " 502, which counts as a failure of the server",
                "keepalive_timeout 4s; (in the upstream; shorter than the server's)",
            )


KEEPALIVE = AuditRule(
    "stale-connections",
    Severity.WARNING,
    "idle connections are kept longer than the server keeps them",
    "uvicorn closes an idle connection after 5 s. NGINX keeps it for 60 s by default, and does not"
    " repeat a POST that it has already sent.",
    "keeps them one second less than the engine does",
    _keepalive,
)

RULES = (TIMEOUT, RETRIES, RELOAD, KEEPALIVE)
