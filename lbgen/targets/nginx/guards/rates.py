"""Limits on requests and on requests in flight, for a listener and for single clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.nginx.language.quoting import escape_regex, regex_word
from lbgen.targets.nginx.language.words import unique, variable
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Client, Limit, Listener
    from lbgen.targets.nginx.assembly import Assembly
    from lbgen.units import Rate

_KEYS = {"client": "$lb_client", "ip": "$binary_remote_addr", "total": "total"}
"""Never empty where the limit should hold: requests with an empty key are not counted (seen on 1.22.1)."""


def limit_lines(made: Assembly, listener: Listener) -> Iterator[Syntax]:
    """Yield the directives of a listener's limits, and add their zones to the http level."""
    for number, limit in enumerate(listener.limits, 1):
        yield from _listener_limit(made, f"{made.listeners[listener.name]}-{number}", limit)
    if listener.auth.clients:
        yield from _client_limits(made, listener)


def ip_limit_lines(made: Assembly, listener: Listener) -> Iterator[Syntax]:
    """Yield those of the directives that count by address."""
    for number, limit in enumerate(listener.limits, 1):
        if limit.per == "ip":
            yield from _listener_limit(made, f"{made.listeners[listener.name]}-{number}", limit)


def _listener_limit(made: Assembly, name: str, limit: Limit) -> Iterator[Syntax]:
    key = _KEYS[limit.per]
    if limit.rate:
        yield _rate(made, f"lb-rate-{name}", key, limit.rate, limit.burst)
    if limit.concurrent:
        yield _concurrent(made, f"lb-busy-{name}", key, limit.concurrent)


def _client_limits(made: Assembly, listener: Listener) -> Iterator[Syntax]:
    slugs = unique(client.name for client in made.fleet.clients)
    for client, slug in zip(made.fleet.clients, slugs, strict=True):
        if client.name not in listener.auth.clients or not (client.rate or client.max_in_flight):
            continue
        key = _only(made, client, slug)
        if client.rate:
            yield _rate(made, f"lb-rate-client_{slug}", key, client.rate, client.burst)
        if client.max_in_flight:
            yield _concurrent(made, f"lb-busy-client_{slug}", key, client.max_in_flight)


def _only(made: Assembly, client: Client, slug: Syntax) -> Syntax:
    """Return a variable that is empty, hence not counted, for all but one client."""
    pattern = regex_word(f"~^{escape_regex(client.name)}$")
    return made.map("$lb_client", f"$lb_is_client_{variable(slug)}", [("default", '""'), (pattern, "1")])


def _rate(made: Assembly, zone: str, key: str, rate: Rate, burst: int) -> Syntax:
    made.directive(f"limit_req_zone {key} zone={zone}:{_megabytes(key)}m rate={rate_word(rate)}")
    # At once or not at all: without `nodelay` a burst would be stretched, and wait inside NGINX.
    return Syntax(f"limit_req zone={zone} burst={burst} nodelay" if burst else f"limit_req zone={zone}")


def _concurrent(made: Assembly, zone: str, key: str, most: int) -> Syntax:
    made.directive(f"limit_conn_zone {key} zone={zone}:{_megabytes(key)}m")
    return Syntax(f"limit_conn {zone} {most}")


def _megabytes(key: str) -> int:
    return 10 if key == _KEYS["ip"] else 1


def rate_word(rate: Rate) -> str:
    """Return the rate per second or minute, since NGINX knows no hours; rounded down, at least one."""
    if rate.seconds == 1:
        return f"{rate.requests}r/s"
    return f"{max(1, rate.requests * 60 // rate.seconds)}r/m"
