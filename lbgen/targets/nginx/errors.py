"""The balancer's own errors as JSON, and which occasion leads to which answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.answers import ANSWERS, METHODS
from lbgen.targets.nginx.features import has
from lbgen.targets.nginx.guards.access import ADDRESS_REFUSED
from lbgen.targets.nginx.guards.admin import ADMIN_REFUSED
from lbgen.targets.nginx.language.quoting import quote, regex_word
from lbgen.targets.nginx.routes.response_headers import merged
from lbgen.targets.nginx.views import Answer, Check, Location, Pair
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from lbgen.targets.common.answers import Answer as Said
    from lbgen.targets.nginx.assembly import Assembly

PREFIX = "/.lbgen/"
"""Internal addresses, which no client reaches."""
ERROR = f"{PREFIX}error"
"""Where every answer is given that its status alone tells.

An address: 400, 414, 421 and 431 arise before the URI is known, when a named location would fail with "empty
URI in redirect to named location" and 500 (seen on 1.22.1).
"""

_BY_STATUS = {
    "bad_request": "400",
    "forbidden": "403",
    "not_found": "404",
    "method_not_allowed": "405",
    "too_large": "413",
    "uri_too_long": "414",
    "misdirected": "421",
    "rate_limited": "429",
    "headers_too_large": "494",  # NGINX's own number for headers over large_client_header_buffers
    "internal": "500",
    "bad_gateway": "502",
    "unavailable": "503",
    "gateway_timeout": "504",
}
_OWN = {
    "no_certificate": "495 496",  # its own numbers for bad and missing client certificates
    "https_required": "497",  # its own number for plain HTTP on a TLS port
    "unauthorized": "401",
    "address_refused": str(ADDRESS_REFUSED),
    "admin_refused": str(ADMIN_REFUSED),
}
"""Several answers have one status, or a header of a listener's own: each has its own location."""
_EARLY = ("no_certificate", "https_required")
UNANSWERED = Syntax("error_page 502 504 $lb_failed")
"""The answer depends on whether any server was reached."""
NEVER_REACHED = (r"~(?:^|[ ,])-$", "@lb-unreached")
"""For the time to connect of the last try: nobody has begun to work on it, and trying again is safe."""

ALWAYS = (
    "bad_request", "uri_too_long", "headers_too_large",
    "not_found", "method_not_allowed", "too_large", "internal",
)  # fmt: skip
"""What any server block may have to answer. Never 408: NGINX hangs up then (seen on 1.22.1)."""
TLS = ("https_required",)
CERTIFICATES = ("no_certificate",)
MISDIRECTED = ("misdirected",)
"""From the block of the name that a connection was made for, which may ask for no certificates itself."""
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
    numbers = [
        number
        for name, number in _BY_STATUS.items()
        if name in occasions and name not in {"headers_too_large", "bad_gateway", "gateway_timeout"}
    ]
    own = (
        f"error_page {number} = {PREFIX if name in _EARLY else '@lb-'}{_slug(name)}"
        for name, number in _OWN.items()
        if name in occasions
    )
    lines = (
        f"error_page {' '.join(numbers)} {ERROR}",
        f"error_page 494 =431 {ERROR}",
        # NGINX's own for transfer encodings and versions of HTTP that it does not know.
        f"error_page 501 505 =400 {ERROR}",
        *own,
    )
    return (*map(Syntax, lines), *([UNANSWERED] if "bad_gateway" in occasions else []))


def error_locations(
    made: Assembly, occasions: Collection[str], headers: tuple[Pair, ...], challenge: str = "Bearer"
) -> Iterator[Location]:
    """Yield the locations that give the answers, each with these response headers.

    `challenge`: what 401 says of how to authenticate.
    """
    made.occasions.update(name for name in _BY_STATUS if name in occasions)
    yield _by_status(made, occasions, headers)
    if "bad_gateway" in occasions:
        yield Location(Syntax("@lb-unreached"), answer=Answer(503))
    for name in (*_OWN, *MODELS):
        if name in occasions:
            early = name in _EARLY
            match = f"= {PREFIX}{_slug(name)}" if early else f"@lb-{_slug(name)}"
            yield answer_location(match, ANSWERS[name], headers, challenge)._replace(internal=early)


def _by_status(made: Assembly, occasions: Collection[str], headers: tuple[Pair, ...]) -> Location:
    """Return the location of all answers that their status tells: it stays the error's, not 200."""
    own = []
    if any(ANSWERS[name].retry_after is not None for name in _BY_STATUS if name in occasions):
        own.append(Pair(Syntax("Retry-After"), Syntax("$lb_retry_after")))
    if "method_not_allowed" in occasions:
        own.append(Pair(Syntax("Allow"), Syntax("$lb_allow")))
    return Location(
        Syntax(f"= {ERROR}"),
        internal=True,
        checks=() if has(made.settings.version, "connect_target") else (Check(_connect(made), 405),),
        # Else a length that comes with a Transfer-Encoding would make it 413 (seen on 1.22.1 to 1.30.6).
        access=(Syntax("client_max_body_size 0"),),
        headers=merged(own, headers),
        answer=Answer(200, Syntax("$lb_error")),
    )


def _connect(made: Assembly) -> Syntax:
    """Return the variable that is 1 for a CONNECT that NGINX took for malformed."""
    why = "NGINX before 1.27 treats the target of CONNECT as malformed."
    return made.map('"$status $request"', "$lb_connect", [(regex_word("~^400 CONNECT "), "1")], why)


def add_error_maps(made: Assembly) -> None:
    """Add what the locations of errors say, by status: to be called when all of them are made."""
    said = {ANSWERS[name].status: ANSWERS[name] for name in _BY_STATUS if name in made.occasions}
    if not said:
        return
    bodies = [(str(status), quote(said[status].body)) for status in sorted(said)]
    made.map("$status", "$lb_error", bodies, "The balancer's own errors, in OpenAI's format.")
    waits = [
        (str(status), str(said[status].retry_after)) for status in sorted(said) if said[status].retry_after
    ]
    if waits:
        made.map("$status", "$lb_retry_after", waits)
    made.map("$status", "$lb_allow", [("405", quote(", ".join(METHODS)))])
    if "bad_gateway" in made.occasions:
        pattern, place = NEVER_REACHED
        made.map(
            "$upstream_connect_time", "$lb_failed", [("default", ERROR), (regex_word(pattern), place)],
            "No connection was established: 503, since a retry is safe.",
        )  # fmt: skip


def answer_location(match: str, said: Said, headers: tuple[Pair, ...], challenge: str = "Bearer") -> Location:
    """Return a location that gives one of the shared answers."""
    own = list(retry_header(said))
    if said is ANSWERS["unauthorized"]:
        own.append(Pair(Syntax("WWW-Authenticate"), quote(challenge)))
    return Location(Syntax(match), answer=json_answer(said), headers=merged(own, headers))


def retry_header(said: Said) -> tuple[Pair, ...]:
    """Return `Retry-After` where waiting helps."""
    return () if said.retry_after is None else (Pair(Syntax("Retry-After"), Syntax(said.retry_after)),)


def json_answer(said: Said) -> Answer:
    """Return one of the shared answers as NGINX gives it."""
    return Answer(said.status, quote(said.body))


def _slug(name: str) -> str:
    return name.replace("_", "-")
