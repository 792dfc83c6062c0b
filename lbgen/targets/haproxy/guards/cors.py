"""CORS, where the balancer owns it: the servers' own headers are removed then, but for what they expose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.claims import EXPOSED
from lbgen.targets.haproxy.language.quoting import quote

if TYPE_CHECKING:
    from lbgen.model import Cors, Listener
    from lbgen.targets.haproxy.language.rules import Rules

_PREFLIGHT = "{ var(txn.lb_preflight) -m found }"
_OWNED = ("Origin", "Credentials", "Methods", "Headers")


def cors_rules(rules: Rules, listener: Listener) -> None:
    """Add the headers of all answers."""
    if not listener.cors.origins:
        return
    asks = ("{ method OPTIONS }", "{ req.fhdr(Origin) -m found }")
    method = "{ req.fhdr(Access-Control-Request-Method) -m found }"
    rules.add("http-request set-var(txn.lb_preflight) bool(true)", *asks, method)
    if "*" in listener.cors.origins:
        rules.add("http-request set-var(txn.lb_origin) str(*)")
    else:
        known = rules.acl(("req.fhdr(Origin) -m str", listener.cors.origins))
        rules.add("http-request set-var(txn.lb_origin) req.fhdr(Origin)", known)
    rules.add("http-request set-var(txn.lb_asked) req.fhdr(Access-Control-Request-Headers)", _PREFLIGHT)
    for name in _OWNED:
        rules.add(f"http-response del-header Access-Control-Allow-{name}")
    rules.add("http-response del-header Access-Control-Max-Age")
    _headers(rules, listener.cors)


def preflight_rules(rules: Rules, listener: Listener) -> None:
    """Answer preflights, which never carry a key: nobody else gets past the rules on keys by one."""
    if listener.cors.origins:
        rules.add("http-request return status 204", _PREFLIGHT)


def _headers(rules: Rules, cors: Cors) -> None:
    allowed = "{ var(txn.lb_origin) -m found }"
    after = "http-after-response"
    rules.add(f"{after} set-header Access-Control-Allow-Origin %[var(txn.lb_origin)]", allowed)
    if cors.credentials:
        rules.add(f"{after} set-header Access-Control-Allow-Credentials true", allowed)
    methods = quote(", ".join(cors.methods))
    rules.add(f"{after} set-header Access-Control-Allow-Methods {methods}", allowed, _PREFLIGHT)
    if cors.headers:
        names = quote(", ".join(cors.headers))
        rules.add(f"{after} set-header Access-Control-Allow-Headers {names}", allowed, _PREFLIGHT)
    else:
        asked = "{ var(txn.lb_asked) -m found }"
        rules.add(f"{after} set-header Access-Control-Allow-Headers %[var(txn.lb_asked)]", allowed, asked)
    age = cors.max_age // 1_000
    rules.add(f"{after} set-header Access-Control-Max-Age {age}", allowed, _PREFLIGHT)
    exposed = quote(", ".join((*EXPOSED, *cors.expose)))
    rules.add(f"{after} add-header Access-Control-Expose-Headers {exposed}")
    rules.add(f"{after} add-header Vary Origin")
