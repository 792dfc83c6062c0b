"""What a `server` block says of clients and of itself, whatever its routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.nginx.guards.rates import limit_lines
from lbgen.targets.nginx.language.words import duration
from lbgen.targets.nginx.listeners.tls import HSTS
from lbgen.targets.nginx.logs import access_log, logged_listener
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import ClientTimeouts, Listener
    from lbgen.targets.nginx.assembly import Assembly

_LINE_KIB = 4
"""For the request line, and for the name of a header that is as long as may be."""
BODY_BUFFER = 1024**2
"""Prompts over the buffer (16 KB by default) cost about 40 ms of first token (measured on 1.22.1)."""


def common_settings(made: Assembly, listener: Listener, client: Syntax) -> Iterator[Syntax]:
    """Yield the lines of the log, and of errors."""
    # Once more for the server: locations without headers of their own inherit it.
    hsts = (f"add_header {HSTS.name} {HSTS.value} always",) if listener.tls and listener.tls.hsts else ()
    lines = (
        *([] if made.whole else [access_log(made.fleet.logs)]),
        # For the log, also where a request fails before it is routed.
        *([f"set $lb_listener {listener.name}"] if logged_listener(made) != listener.name else []),
        *([f"set $lb_client {client}"] if made.fleet.clients else []),
        "uninitialized_variable_warn off",
        # An error inside an answer to an error is answered too.
        "recursive_error_pages on",
        "reset_timedout_connection on",
        *(("limit_req_status 429", "limit_conn_status 429") if any(limit_lines(made, listener)) else ()),
    )
    return map(Syntax, (*lines, *hsts))


def header_buffers(octets: int) -> Iterator[Syntax]:
    """Yield the room for headers of this many bytes."""
    # Whatever fits into one buffer fits into two, however its lines fall. The room is for the line itself.
    yield Syntax(f"large_client_header_buffers 2 {-(-octets // 1024) + _LINE_KIB}k")


def timeouts(waits: ClientTimeouts) -> Iterator[Syntax]:
    """Yield the client's timers where they are not NGINX's own."""
    for name, milliseconds, default in (
        ("keepalive_timeout", waits.keepalive, 75_000),
        ("client_header_timeout", waits.header, 60_000),
        ("client_body_timeout", waits.body, 60_000),
    ):
        if milliseconds != default:
            yield Syntax(f"{name} {duration(milliseconds)}")
