"""CORS, where the balancer owns it: the servers' own headers are taken away then."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.model import Listener
    from lbgen.targets.haproxy.rules import Rules

_PREFLIGHT = "{ var(txn.lb_preflight) -m found }"
_METHODS = "'GET, POST, PUT, PATCH, DELETE, OPTIONS'"
_OWNED = ("Origin", "Credentials", "Methods", "Headers")


def cors_rules(rules: Rules, listener: Listener) -> None:
    """Add the headers, and the answer to preflights."""
    if not listener.cors_origins:
        return
    # A browser's preflight never carries a key, and is answered here: it is no way past the rules on keys.
    asks = ("{ method OPTIONS }", "{ req.fhdr(Origin) -m found }")
    method = "{ req.fhdr(Access-Control-Request-Method) -m found }"
    rules.add("http-request set-var(txn.lb_preflight) bool(true)", *asks, method)
    if "*" in listener.cors_origins:
        rules.add("http-request set-var(txn.lb_origin) str(*)")
    else:
        known = rules.acl(("req.fhdr(Origin) -m str", listener.cors_origins))
        rules.add("http-request set-var(txn.lb_origin) req.fhdr(Origin)", known)
    rules.add("http-request set-var(txn.lb_asked) req.fhdr(Access-Control-Request-Headers)", _PREFLIGHT)
    for name in _OWNED:
        rules.add(f"http-response del-header Access-Control-Allow-{name}")
    rules.add("http-response del-header Access-Control-Max-Age")
    rules.add("http-response del-header Access-Control-Expose-Headers")
    _headers(rules)
    rules.add("http-request return status 204", _PREFLIGHT)


def _headers(rules: Rules) -> None:
    allowed = "{ var(txn.lb_origin) -m found }"
    after = "http-after-response"
    rules.add(f"{after} set-header Access-Control-Allow-Origin %[var(txn.lb_origin)]", allowed)
    rules.add(f"{after} set-header Access-Control-Allow-Methods {_METHODS}", allowed, _PREFLIGHT)
    asked = "{ var(txn.lb_asked) -m found }"
    rules.add(f"{after} set-header Access-Control-Allow-Headers %[var(txn.lb_asked)]", allowed, asked)
    rules.add(f"{after} set-header Access-Control-Max-Age 7200", allowed, _PREFLIGHT)
    rules.add(f"{after} set-header Access-Control-Expose-Headers 'X-Request-Id, Retry-After'")
    rules.add(f"{after} add-header Vary Origin")
