"""The balancer's own errors as JSON, and which occasion leads to which answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.answers import ANSWERS
from lbgen.targets.nginx.quoting import quote
from lbgen.targets.nginx.views import Answer, Location, Pair
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from lbgen.targets.answers import Answer as Said

PREFIX = "/.lbgen/"
"""Internal addresses, which no client reaches."""

# 400, 414, 431 and 497 arise before the URI is known; a named location would fail with "empty URI in
# redirect to named location" and 500 (seen on 1.22.1), so these have an address.
_EARLY = {
    "400": "bad_request",
    "408": "request_timeout",
    "414": "uri_too_long",
    "494": "headers_too_large",  # NGINX's own number for headers over large_client_header_buffers
    "495 496": "no_certificate",  # its own numbers for bad and missing client certificates
    "497": "https_required",  # its own number for plain HTTP on a TLS port
}
_LATE = {
    "401": "unauthorized",
    "403": "forbidden",
    "404": "not_found",
    "405": "method_not_allowed",
    "413": "too_large",
    "429": "rate_limited",
    "500": "internal",
    "503": "unavailable",
}
_CHOSEN = ("bad_gateway", "gateway_timeout", "model_not_found", "model_unreadable")
"""Never by number alone."""
UNANSWERED = (Syntax("error_page 502 = @$lb_on_502"), Syntax("error_page 504 = @$lb_on_504"))
"""The answer depends on whether any server was reached; `=`: the status is the answer's own.

Two lines, since `$status` is already 0 when the name is put together (seen on 1.22.1).
"""


def error_pages() -> tuple[Syntax, ...]:
    """Return the directives that lead each error of NGINX's own making to its answer.

    They never touch what a server answered: `proxy_intercept_errors` is off.
    """
    early = [f"error_page {numbers} = {PREFIX}{name}" for numbers, name in _EARLY.items()]
    late = [f"error_page {number} = @lb-{_slug(name)}" for number, name in _LATE.items()]
    return (*map(Syntax, early), *map(Syntax, late), *UNANSWERED)


def error_locations(headers: tuple[Pair, ...], challenge: str = "Bearer") -> tuple[Location, ...]:
    """Return the locations that give the answers, each with these response headers.

    `challenge`: what 401 says of how to authenticate.
    """
    early = [_early(name, headers) for name in dict.fromkeys(_EARLY.values())]
    late = [(f"@lb-{_slug(name)}", ANSWERS[name]) for name in (*_LATE.values(), *_CHOSEN)]
    return (*early, *(answer_location(match, said, headers, challenge) for match, said in late))


def answer_location(match: str, said: Said, headers: tuple[Pair, ...], challenge: str = "Bearer") -> Location:
    """Return a location that gives one of the shared answers."""
    headers = (*headers, *retry_header(said))
    if said is ANSWERS["unauthorized"]:
        headers = (*headers, Pair(Syntax("WWW-Authenticate"), quote(challenge)))
    return Location(Syntax(match), answer=json_answer(said), headers=headers)


def retry_header(said: Said) -> tuple[Pair, ...]:
    """Return `Retry-After` where waiting helps."""
    return () if said.retry_after is None else (Pair(Syntax("Retry-After"), Syntax(said.retry_after)),)


def json_answer(said: Said) -> Answer:
    """Return one of the shared answers as NGINX gives it."""
    return Answer(said.status, quote(said.body), Syntax("application/json"))


def _early(name: str, headers: tuple[Pair, ...]) -> Location:
    location = answer_location(f"= {PREFIX}{name}", ANSWERS[name], headers)
    return location._replace(internal=True)


def _slug(name: str) -> str:
    return name.replace("_", "-")
