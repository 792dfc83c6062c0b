"""Numbers and names in HAProxy's spelling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.answers import ANSWERS, METHODS
from lbgen.targets.haproxy.language.quoting import quote
from lbgen.targets.spec import Syntax
from lbgen.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Timeouts
    from lbgen.targets.common.answers import Answer
    from lbgen.units import Address


WEBSOCKET = "{ req.fhdr(Upgrade) -m str -i -- websocket }"
"""A handshake: just that token, in any case."""


def duration(milliseconds: int) -> str:
    """Return a time with its unit: HAProxy takes bare numbers for milliseconds."""
    return format_duration(milliseconds)


def server_address(address: Address) -> str:
    """Return where a server is: a Unix socket is told by `unix@`."""
    return f"unix@{address.host}" if address.is_unix else str(address)


def server_timeout(timeouts: Timeouts) -> int:
    """Return the one number for the first byte and for gaps: HAProxy has one timer for both."""
    return max(timeouts.first_byte or 0, timeouts.idle or 0)


def frontend_name(listener: str) -> str:
    """Return a listener's frontend. No pool has a colon, so none is the same (a warning on 3.2)."""
    return f"listener:{listener}"


DEFAULT_TIMEOUTS = {
    "connect": 3_000, "queue": 60_000, "client": 600_000, "server": 600_000, "http-request": 60_000,
    "http-keep-alive": 75_000,
}  # fmt: skip
"""Milliseconds, in `defaults`: sections say what is different."""


def timeouts(**wanted: int) -> Iterator[str]:
    """Yield the timeouts of a section that are not the defaults'."""
    for word, milliseconds in wanted.items():
        name = word.replace("_", "-")
        if DEFAULT_TIMEOUTS.get(name) != milliseconds:
            yield f"timeout {name} {duration(milliseconds)}"


COMMON_ERRORS = ("bad_request", "unauthorized", "forbidden", "not_found", "method_not_allowed",
                 "request_timeout", "too_large",
                 "rate_limited", "internal", "bad_gateway", "unavailable", "gateway_timeout")  # fmt: skip
"""What stands in `defaults`, for errors that HAProxy finds itself and for `http-request deny`."""


def refuse(name: str) -> str:
    """Return the rule that gives one of the shared answers."""
    answer = ANSWERS[name]
    if name in COMMON_ERRORS:
        return f"http-request deny deny_status {answer.status}"
    return f"http-request return {error_reply(answer)}"


def error_reply(answer: Answer) -> Syntax:
    """Return one of the shared answers as the arguments of ``http-error`` or ``http-request return``."""
    words = f"status {answer.status} content-type application/json string {quote(answer.body)}"
    if answer.retry_after is not None:
        words += f" hdr Retry-After {answer.retry_after}"
    if answer.status == 405:
        words += f" hdr Allow {quote(', '.join(METHODS))}"
    if answer.status == 401:
        words += " hdr WWW-Authenticate Bearer"
    return Syntax(words)


def header_sample(name: str) -> Syntax:
    """Return the sample of a request header: a name may hold `#`, which would end the line."""
    return quote(f"req.fhdr({name})")
