"""One small request through the new balancer to a real server, to see a stream come out at the other end."""

from __future__ import annotations

import json
import time
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, NamedTuple

from lbgen.deploy.asking import asked, reason_of, url_of
from lbgen.problems import LbgenError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from http.client import HTTPResponse

    from lbgen.model import Fleet, Listener
    from lbgen.targets.spec import Secrets

SMOKE_S = 60.0
"""The longest silence; a busy fleet may let the request wait."""
_PROMPT = "Say ok."
_BODIES: Mapping[str, Mapping[str, object]] = {
    "chat/completions": {"messages": [{"role": "user", "content": _PROMPT}], "max_tokens": 4, "stream": True},
    "completions": {"prompt": _PROMPT, "max_tokens": 4, "stream": True},
    "responses": {"input": _PROMPT, "max_output_tokens": 16, "stream": True},
    "messages": {"messages": [{"role": "user", "content": _PROMPT}], "max_tokens": 4, "stream": True},
    "embeddings": {"input": _PROMPT},
}
"""By the end of the path. Any other path is asked with GET."""


class Smoke(NamedTuple):
    """What is to be asked, of the fleet's first listener."""

    path: str
    model: str
    key: str
    """A client's key; empty: none is sent."""


def smoke_for(fleet: Fleet, path: str, model: str | None, secrets: Secrets) -> Smoke:
    """Return the request, by default with a model that the fleet names and the first client's key.

    Raises `LbgenError` where nobody but a holder of a client certificate gets in.
    """
    listener = fleet.listeners[0]
    if listener.tls and listener.tls.client_ca:
        raise LbgenError(f"--smoke: listener {listener.name} requires client certificates")
    allowed = [client for client in fleet.clients if client.name in listener.auth.clients]
    key = secrets.resolve(allowed[0].keys[0]) if allowed else ""
    return Smoke(path, model or _first_model(fleet), key)


def _first_model(fleet: Fleet) -> str:
    """Return a model that a route of the first listener leads to and that is no pattern."""
    pools = fleet.pools_of(fleet.listeners[0])
    return next((name for pool in pools for name in pool.models if not set(name) & set("*?[")), "default")


def smoke(fleet: Fleet, target: str, wanted: Smoke) -> str:
    """Ask, and return in words what came; raises `LbgenError` when it was no whole, good answer."""
    listener = fleet.listeners[0]
    place = url_of(listener, wanted.path)
    body = _body(wanted)
    begin = time.monotonic()
    try:
        with asked(
            listener, target, wanted.path, body=body, headers=_headers(listener, wanted), timeout=SMOKE_S
        ) as response:
            if response.status != HTTPStatus.OK:
                said = response.read(300).decode(errors="replace")
                raise LbgenError(f"the smoke request to {place} got {response.status}: {said}")
            return f"smoke request to {wanted.path}: {_read(response, place, begin)}"
    except UnicodeError:
        raise LbgenError(f"the smoke request to {place} cannot be sent: its key is not Latin-1") from None
    except (OSError, HTTPException) as error:
        raise LbgenError(f"the smoke request to {place} got no response {reason_of(error)}") from None


def _body(wanted: Smoke) -> bytes | None:
    for ending, body in _BODIES.items():
        if wanted.path.partition("?")[0].endswith(f"/{ending}"):
            return json.dumps({"model": wanted.model, **body}).encode()
    return None


def _headers(listener: Listener, wanted: Smoke) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "User-Agent": "lbgen-smoke"}
    if wanted.key:
        name = listener.auth.header
        headers[name] = f"Bearer {wanted.key}" if name.lower() == "authorization" else wanted.key
    return headers


def _read(response: HTTPResponse, place: str, begin: float) -> str:
    """Read the answer to its end; the first event says when the first token came."""
    if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
        return f"200 with {len(response.read())} bytes"
    events, first, last = 0, 0.0, b""
    for line in response:
        if not line.startswith(b"data:"):
            continue
        if b'"error"' in line:
            raise LbgenError(
                f"the smoke request to {place} streamed an error: {line[5:305].decode(errors='replace')}"
            )
        events, last = events + 1, line[5:].strip()
        first = first or time.monotonic() - begin
    if not events:
        raise LbgenError(f"the smoke request to {place} got a stream without events")
    if place.partition("?")[0].endswith("/completions") and last != b"[DONE]":  # http.client sees no cut
        raise LbgenError(f"the smoke request to {place} got an incomplete stream")
    return f"a stream of {events} events, the first after {first:.2f} s"
