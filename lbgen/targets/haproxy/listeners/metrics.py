"""The listener for statistics, Prometheus and probes."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from typing import TYPE_CHECKING

from lbgen.targets.common.answers import live_body
from lbgen.targets.haproxy.language.rules import Rules
from lbgen.targets.haproxy.language.words import refuse
from lbgen.targets.haproxy.listeners.binds import plain_binds
from lbgen.targets.haproxy.listeners.status import ok_rule, ready_rules
from lbgen.targets.haproxy.pools.learned import DECISIONS, counts_decisions, decisions_table
from lbgen.targets.haproxy.views import Frontend, syntax
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.targets.haproxy.assembly import Assembly

METRICS_FILE = "secrets/metrics.map"


def metrics_frontend(made: Assembly) -> Iterator[Frontend]:
    """Yield the frontend, if the fleet has one: ``/metrics``, ``/stats``, ``/live`` and ``/ready``."""
    metrics = made.fleet.metrics
    if metrics is None:
        return
    rules = Rules(made, made.fleet.listeners)
    rules.add("http-request set-var(txn.lb_path) path")
    rules.add(ok_rule(live_body(made.fleet.digest)), "{ var(txn.lb_path) -m str /live }")
    pools = dict.fromkeys(name for listener in made.fleet.listeners for name in listener.pools)
    ready_rules(rules, "{ var(txn.lb_path) -m str /ready }", tuple(pools), "any_pool")
    allowed = metrics.allow
    if not allowed and all(_is_loopback(bind.host) for bind in metrics.binds):
        allowed = ("127.0.0.0/8", "::1/128")
    if allowed:
        rules.add(refuse("forbidden"), f"!{rules.acl(('src', allowed))}")
    if metrics_text(made):
        digest = f"req.fhdr(Authorization),sha2(256),hex,map_str({made.file(METRICS_FILE)})"
        rules.add("http-request auth realm metrics", f"!{{ {digest} -m found }}")
    rules.add("http-request use-service prometheus-exporter", "{ var(txn.lb_path) -m str /metrics }")
    page = _decisions(made)
    if page:
        answer = 'http-request return status 200 content-type "text/plain; version=0.0.4"'
        rules.add(f'{answer} lf-string "{page}"', "{ var(txn.lb_path) -m str /decisions }")
    rules.add(refuse("not_found"), "!{ var(txn.lb_path) -m beg /stats }")
    yield Frontend(
        Syntax("lb:metrics"),
        syntax(*(line for bind in metrics.binds for line in plain_binds(bind))),
        syntax(
            *(["no log"] if made.one_log else []),
            "timeout client 60s",
            "stats enable",
            "stats uri /stats",
            "stats refresh 10s",
        ),
        syntax(*rules.lines),
        (),
    )


_HELP = (
    "# HELP lbgen_decisions_total Requests of a pool by the reason for their server\\n# TYPE"
    " lbgen_decisions_total counter\\n"
)


def _decisions(made: Assembly) -> str:
    """Return a page for Prometheus with what HAProxy's own has not: why requests went where they went."""
    lines = [
        f'lbgen_decisions_total{{pool=\\"{pool.name}\\",decision=\\"{word}\\"}} '
        f"%[str({word}),table_http_req_cnt({decisions_table(pool)})]\\n"
        for pool in made.fleet.pools
        if counts_decisions(made.fleet, pool)
        for word in DECISIONS
    ]
    return "".join([_HELP, *lines]) if lines else ""


def metrics_text(made: Assembly) -> str:
    """Return the map that knows the digest of the right Authorization header; empty without a password."""
    metrics = made.fleet.metrics
    if metrics is None or metrics.user is None or metrics.password is None:
        return ""
    pair = f"{metrics.user}:{made.resolve(metrics.password)}"
    word = f"Basic {b64encode(pair.encode()).decode()}"
    return f"{hashlib.sha256(word.encode()).hexdigest().upper()} metrics\n"


def _is_loopback(host: str) -> bool:
    return host in {"::1", "localhost"} or host.startswith("127.")
