"""The balancer's own errors as JSON, and which occasion leads to which answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.answers import ANSWERS, METHODS
from lbgen.targets.nginx.access import ADDRESS_REFUSED
from lbgen.targets.nginx.admin import ADMIN_REFUSED
from lbgen.targets.nginx.quoting import quote
from lbgen.targets.nginx.response_headers import merged
from lbgen.targets.nginx.views import NOTHING, Answer, Check, Location, Pair
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Collection

    from lbgen.targets.answers import Answer as Said

PREFIX = "/.lbgen/"
"""Internal addresses, which no client reaches."""

# 400, 414, 421, 431 and 497 arise before the URI is known; a named location would fail with "empty URI in
# redirect to named location" and 500 (seen on 1.22.1), so these have an address. 501 and 505 are NGINX's own
# for transfer encodings and versions of HTTP that it does not know.
_EARLY = {
    "bad_request": "400 501 505",
    "uri_too_long": "414",
    "misdirected": "421",
    "headers_too_large": "494",  # NGINX's own number for headers over large_client_header_buffers
    "no_certificate": "495 496",  # its own numbers for bad and missing client certificates
    "https_required": "497",  # its own number for plain HTTP on a TLS port
}
_LATE = {
    "unauthorized": "401",
    "forbidden": "403",
    "address_refused": str(ADDRESS_REFUSED),
    "admin_refused": str(ADMIN_REFUSED),
    "not_found": "404",
    "method_not_allowed": "405",
    "too_large": "413",
    "rate_limited": "429",
    "internal": "500",
    "unavailable": "503",
}
UNANSWERED = (Syntax("error_page 502 = @$lb_on_502"), Syntax("error_page 504 = @$lb_on_504"))
"""The answer depends on whether any server was reached; `=`: the status is the answer's own.

Two lines, since `$status` is already 0 when the name is put together (seen on 1.22.1).
"""

ALWAYS = (
    "bad_request", "uri_too_long", "headers_too_large",
    "not_found", "method_not_allowed", "too_large", "internal",
)  # fmt: skip
"""What any server block may have to answer. Never 408: NGINX hangs up then (seen on 1.22.1)."""
TLS = ("https_required",)
CERTIFICATES = ("no_certificate", "misdirected")
KEYS = ("unauthorized", "forbidden")
ADDRESSES = ("address_refused",)
ADMIN = ("admin_refused",)
LIMITS = ("rate_limited",)
PROXIED = ("unavailable", "bad_gateway", "gateway_timeout")
MODELS = (
    "model_not_found", "model_unreadable", "bad_body", "unsupported_encoding", "odd_spelling", "bad_form",
    "made_elsewhere",
)  # fmt: skip
"""Never by number alone."""


def error_pages(occasions: Collection[str]) -> tuple[Syntax, ...]:
    """Return the directives that lead each error of NGINX's own making to its answer.

    They never touch what a server answered: `proxy_intercept_errors` is off.
    """
    early = [
        f"error_page {numbers} = {PREFIX}{name}" for name, numbers in _EARLY.items() if name in occasions
    ]
    late = [f"error_page {number} = @lb-{_slug(name)}" for name, number in _LATE.items() if name in occasions]
    unanswered = UNANSWERED if "bad_gateway" in occasions else ()
    return (*map(Syntax, early), *map(Syntax, late), *unanswered)


def error_locations(
    occasions: Collection[str], headers: tuple[Pair, ...], challenge: str = "Bearer"
) -> tuple[Location, ...]:
    """Return the locations that give the answers, each with these response headers.

    `challenge`: what 401 says of how to authenticate.
    """
    early = [_early(name, headers) for name in _EARLY if name in occasions]
    late = [name for name in (*_LATE, *PROXIED[1:], *MODELS) if name in occasions]
    return (
        *early,
        *(answer_location(f"@lb-{_slug(name)}", ANSWERS[name], headers, challenge) for name in late),
    )


def answer_location(match: str, said: Said, headers: tuple[Pair, ...], challenge: str = "Bearer") -> Location:
    """Return a location that gives one of the shared answers."""
    own = list(retry_header(said))
    if said is ANSWERS["unauthorized"]:
        own.append(Pair(Syntax("WWW-Authenticate"), quote(challenge)))
    if said is ANSWERS["method_not_allowed"]:
        own.append(Pair(Syntax("Allow"), quote(", ".join(METHODS))))
    headers = merged(own, headers)
    # Every configuration has a place that sets $lb_pool, which is empty until a route is known. A server
    # block could not: the subrequest that reads a body would empty it again.
    pool = Syntax('""') if said is ANSWERS["not_found"] else NOTHING
    return Location(Syntax(match), pool=pool, answer=json_answer(said), headers=headers)


def retry_header(said: Said) -> tuple[Pair, ...]:
    """Return `Retry-After` where waiting helps."""
    return () if said.retry_after is None else (Pair(Syntax("Retry-After"), Syntax(said.retry_after)),)


def json_answer(said: Said) -> Answer:
    """Return one of the shared answers as NGINX gives it."""
    return Answer(said.status, quote(said.body), Syntax("application/json"))


def _early(name: str, headers: tuple[Pair, ...]) -> Location:
    location = answer_location(f"= {PREFIX}{name}", ANSWERS[name], headers)
    if name != "bad_request":
        return location._replace(internal=True)
    # Before 1.27 NGINX takes the target of a CONNECT for a malformed one.
    connect = Check(Syntax('$request ~ "^CONNECT "'), 405)
    # Else a length that comes with a Transfer-Encoding would make it 413 (seen on 1.22.1 to 1.30.6).
    any_length = Syntax("client_max_body_size 0")
    return location._replace(internal=True, checks=(connect,), access=(any_length,))


def _slug(name: str) -> str:
    return name.replace("_", "-")
