"""Limits of requests: whom they count, whom they hold up, and how they refuse."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.audit.rule import AuditRule, Finding
from lbgen.problems import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.audit.haproxy_view import HaproxyView
    from lbgen.audit.nginx_view import NginxView
    from lbgen.problems import Location
    from lbgen.readers.nginx import Directive

_SECONDS = {"s": 1, "m": 60}


def _nginx_limits(view: NginxView) -> Iterator[Finding]:
    if view.generated or not view.passes or list(view.whole.directives("set_real_ip_from")):
        return
    for said, _ in view.whole.directives("limit_req_zone", "limit_conn_zone"):
        if said.value in {"$remote_addr", "$binary_remote_addr"}:
            yield _shared_bucket(
                said.location, "limit_req_zone $http_authorization zone=per_key:10m rate=600r/m;"
            )


def _haproxy_limits(view: HaproxyView) -> Iterator[Finding]:
    for front in () if view.generated else view.fronts:
        known = front.own("http-request", "set-src") or any(
            "accept-proxy" in one.words for one in front.own("bind")
        )
        for line in front.lines:
            tracks = any(word.startswith("track-sc") for word in line.words[:3])
            if tracks and "src" in line.words and not known:
                yield _shared_bucket(line.location, "http-request track-sc0 req.hdr(Authorization)")


def _shared_bucket(location: Location, write: str) -> Finding:
    return Finding(
        location,
        "the limit applies to the client's address: all clients behind one gateway, office or proxy"
        " share it, and a client with many addresses evades it",
        write,
    )


ADDRESS_LIMITS = AuditRule(
    "limit-by-address",
    Severity.INFO,
    "a limit applies to an address that many clients may share",
    "A batch job and the users of the same office have one address. An API key identifies who causes the"
    " cost.",
    "applies limits to API keys, unless the fleet sets 'per: ip', which respects 'trusted_proxies'",
    _nginx_limits,
    _haproxy_limits,
)


def _delays(view: NginxView) -> Iterator[Finding]:
    rates = {zone: said for said, _ in view.whole.directives("limit_req_zone") if (zone := _zone(said))}
    for said in _holding(view, "limit_req"):
        burst, delay = said.parameter("burst") or "0", said.parameter("delay") or "0"
        numbers = all(one.isascii() and one.isdecimal() for one in (burst, delay))
        if not numbers or burst == "0" or "nodelay" in said.args:
            continue
        delayed = int(burst) - int(delay)
        seconds = _seconds_each(rates.get(_zone(said)))
        if delayed <= 0 or (seconds is not None and delayed * seconds < 1):
            continue
        long = f"up to {delayed * seconds:.0f} s" if seconds is not None else "in turn"
        yield Finding(
            said.location,
            f"'limit_req' without 'nodelay' delays the requests of a burst ({long}), and clients that"
            " time out retry into the same queue",
            f"limit_req {' '.join(one for one in said.args if not one.startswith('delay='))} nodelay;",
        )


def _holding(view: NginxView, name: str) -> list[Directive]:
    """Return the directives of this name that hold where requests are passed on, each once."""
    found = {one.location: one for pass_ in view.passes for one in pass_.level.all(name)}
    return [] if view.generated else list(found.values())


def _zone(said: Directive) -> str:
    return (said.parameter("zone") or "").partition(":")[0]


def _seconds_each(zone: Directive | None) -> float | None:
    """Return after how many seconds the next request may pass; None where the rate is not to be read."""
    found = re.fullmatch(r"(\d+)r/([sm])", zone.parameter("rate") or "") if zone else None
    return _SECONDS[found[2]] / int(found[1]) if found and int(found[1]) else None


DELAYS = AuditRule(
    "limit-delays",
    Severity.WARNING,
    "requests above a limit are delayed instead of refused",
    "Without `nodelay` NGINX forwards a burst at the zone's rate. With it, the burst passes at once, and"
    " only requests above the burst are refused.",
    "sets 'nodelay' in each limit",
    _delays,
)


def _refusals(view: NginxView) -> Iterator[Finding]:
    for name in ("limit_req", "limit_conn"):
        for said in _holding(view, name):
            levels = [one.level for one in view.passes if said in one.level.all(name)]
            if any(level.first(f"{name}_status") is None for level in levels):
                yield Finding(
                    said.location,
                    f"requests above this limit get 503, the default of '{name}_status': clients and"
                    " monitoring take this for a failed server, not for a rate limit",
                    f"{name}_status 429;",
                )


REFUSALS = AuditRule(
    "limit-looks-broken",
    Severity.INFO,
    "requests above a limit get 503 instead of 429",
    "NGINX's default is 503; the correct status is 429.",
    "returns 429 with Retry-After",
    _refusals,
)

RULES = (ADDRESS_LIMITS, DELAYS, REFUSALS)
