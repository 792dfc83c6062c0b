"""Who a request comes from, and what a server is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.claims import CLAIMS
from lbgen.targets.nginx.features import has
from lbgen.targets.nginx.language.quoting import regex_word
from lbgen.targets.nginx.language.words import variable
from lbgen.targets.nginx.routes.conditions import header_variable
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener
    from lbgen.targets.nginx.assembly import Assembly


def real_address(listener: Listener) -> Iterator[Syntax]:
    """Yield what makes $remote_addr the client's address behind proxies that are trusted."""
    trusted = listener.trusted_proxies or (("0.0.0.0/0", "::/0") if listener.accept_proxy else ())
    for network in trusted:
        yield Syntax(f"set_real_ip_from {network}")
    if trusted:
        yield Syntax(f"real_ip_header {'proxy_protocol' if listener.accept_proxy else 'X-Forwarded-For'}")
        yield Syntax("real_ip_recursive on")


def underscores(made: Assembly) -> Iterator[Syntax]:
    """Yield what lets headers with an underscore in, where the fleet names one.

    For all listeners, if for one: the default server of a bind reads what comes before `Host`. NGINX drops
    such headers by default, without a word in the log (seen on 1.22.1).
    """
    named = [listener.auth.header for listener in made.fleet.listeners]
    for route in (route for listener in made.fleet.listeners for route in listener.routes):
        named += [*route.match.headers, route.split_by.removeprefix("header:")]
    named += [str(pool.strategy.parameters.get("header") or "") for pool in made.fleet.pools]
    if any("_" in name for name in named):
        yield Syntax("underscores_in_headers on")


def request_headers(made: Assembly, listener: Listener) -> Iterator[tuple[str, str]]:
    """Yield the headers of the request on its way to a server that follow from who sent it."""
    yield from _claims(made, listener)
    # A client may send two of them, and NGINX looks at the first (1.22.1) or at both, joined by a comma (from
    # 1.23 on): the server gets what was looked at.
    for name in _deciding(made, listener):
        yield name, header_variable(name)


def _claims(made: Assembly, listener: Listener) -> Iterator[tuple[str, str]]:
    """Yield what a trusted proxy in front says of the request; from others it is removed."""
    if not listener.trusted_proxies or listener.accept_proxy:  # the latter pass on what clients wrote
        yield from ((name, '""') for name in CLAIMS)
        return
    listened = variable(made.listeners[listener.name])
    trusted = made.geo("$realip_remote_addr", f"$lb_trusted_{listened}", listener.trusted_proxies)
    entries = [("default", "$scheme"), (regex_word(r"~^1:https?$"), "$http_x_forwarded_proto")]
    proto = made.map(f'"{trusted}:$http_x_forwarded_proto"', f"$lb_proto_{listened}", entries)
    yield "X-Forwarded-Proto", proto
    named = regex_word(r"~^1:[A-Za-z0-9._-]+(?::[0-9]{1,5})?$")
    entries = [("default", "$lb_host"), (named, "$http_x_forwarded_host")]
    yield (
        "X-Forwarded-Host",
        made.map(f'"{trusted}:$http_x_forwarded_host"', f"$lb_public_{listened}", entries),
    )
    for name in CLAIMS:
        claimed = f"$lb_{variable(Syntax(name.lower()))}_{listened}"
        yield name, made.map(trusted, claimed, [("default", '""'), ("1", header_variable(name))])


def _deciding(made: Assembly, listener: Listener) -> Iterator[str]:
    """Yield the headers by which a request is let in or routed, and which a server gets."""
    auth = listener.auth
    if not has(made.settings.version, "joined_headers"):
        yield from ("Origin", "X-Api-Key")
    if auth.clients and auth.upstream == "pass":
        yield from dict.fromkeys(["Authorization", "X-Api-Key", auth.header])
    if auth.external:
        yield from auth.external.forward
    for route in listener.routes:
        yield from route.match.headers
        if route.split_by.startswith("header:"):
            yield route.split_by.removeprefix("header:")
    if any(route.match.reads_text for route in listener.routes):
        yield "Content-Encoding"
