"""Answers that say what a server saw: for tests of what a balancer makes of a request.

The header ``x-mock-echo: {}`` asks for one; its value is a JSON object of headers that the answer gets too,
a number standing for so many letters.
A WebSocket handshake gets its bytes back instead, until somebody hangs up.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.lab.mock.http_server import Exchange, Header, Request

HEADER = "x-mock-echo"


async def echo(exchange: Exchange, headers: Sequence[Header]) -> None:
    """Answer a request with itself; raises `ClientGone`, and `ValueError` for a wrong header."""
    request = exchange.request
    if (request.header("upgrade") or "").lower() == "websocket":
        exchange.tunnel()
        return
    more = json.loads(request.header(HEADER) or "{}")
    if not isinstance(more, dict):
        raise ValueError(f"{HEADER} wants a JSON object")  # noqa: TRY004 - what callers catch
    given = [
        (str(name), "x" * value if isinstance(value, int) else str(value)) for name, value in more.items()
    ]
    body = json.dumps(_seen(request)).encode()
    await exchange.respond(200, body, (*headers, ("content-type", "application/json"), *given))


def _seen(request: Request) -> dict[str, Any]:
    return {
        "method": request.method,
        "target": f"{request.path}?{request.query}" if request.query else request.path,
        "headers": [list(header) for header in request.headers],
        "body_sha256": hashlib.sha256(request.body).hexdigest(),
        "body_bytes": len(request.body),
    }
