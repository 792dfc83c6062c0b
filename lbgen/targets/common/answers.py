"""What a balancer itself answers when no server does: OpenAI's error form, the same on every target.

Clients retry by status and `Retry-After`, and show `error.message`; an HTML page breaks both.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple


class Answer(NamedTuple):
    """One answer made by the balancer."""

    status: int
    kind: str
    """OpenAI's ``error.type``."""
    code: str
    """OpenAI's ``error.code``."""
    message: str
    retry_after: int | None = None
    """Seconds until trying again makes sense; None where waiting does not help."""

    @property
    def body(self) -> str:
        """The JSON text, on one line."""
        error = {"message": self.message, "type": self.kind, "param": None, "code": self.code}
        return json.dumps({"error": error})


OK_BODY = json.dumps({"status": "ok"})
"""What the ready probe answers."""


def live_body(digest: str) -> str:
    """Return what the live probe answers: also which fleet it is that runs, and with which files."""
    return json.dumps({"status": "ok", "digest": digest, "files": files_mark(digest)})


def files_mark(digest: str) -> str:
    """Return what stands for the fingerprint of the files until all of them are there.

    It holds the fleet's digest, so nothing in the fleet can look like it.
    """
    return f"files-of-{digest}"


def files_named(text: str) -> str:
    """Return the fingerprint that a live probe's answer, or the configuration with it, names; or nothing."""
    found = re.search(r'"files": "([0-9a-f]+)"', text)
    return found[1] if found else ""


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""What a refused CONNECT or TRACE is told of (`Allow`)."""

_BAD = "invalid_request_error"
_SERVER = "server_error"

ANSWERS: dict[str, Answer] = {
    "bad_request": Answer(400, _BAD, "bad_request", "The request is malformed."),
    "bad_body": Answer(400, _BAD, "invalid_json", "The request body is not valid JSON, as UTF-8 text."),
    "bad_form": Answer(
        400, _BAD, "invalid_form", "The form or query is malformed, or has a field twice that decides."
    ),
    "odd_spelling": Answer(
        400,
        _BAD,
        "odd_spelling",
        "Write the model's letters without escapes, and numbers of tokens without an exponent.",
    ),
    "https_required": Answer(400, _BAD, "https_required", "This port speaks HTTPS only."),
    "no_certificate": Answer(
        401, _BAD, "client_certificate_required", "A client certificate of a known authority is required."
    ),
    "unauthorized": Answer(401, _BAD, "invalid_api_key", "The API key is missing or not known here."),
    "forbidden": Answer(403, _BAD, "forbidden", "This API key may not use what it asked for."),
    "address_refused": Answer(
        403, _BAD, "address_not_allowed", "Requests from this address are not accepted here."
    ),
    "admin_refused": Answer(
        403, _BAD, "admin_path_refused", "This path administers the inference server, and is closed here."
    ),
    "not_found": Answer(404, _BAD, "not_found", "No route of this gateway fits the request."),
    "model_not_found": Answer(404, _BAD, "model_not_found", "The model does not exist on this gateway."),
    "made_elsewhere": Answer(
        404,
        _BAD,
        "object_of_a_server",
        "What this path names is kept by the server that made it, and without a model nothing tells which"
        " that is: this gateway needs a route for the path to a single pool.",
    ),
    "method_not_allowed": Answer(405, _BAD, "method_not_allowed", "The method is not allowed here."),
    "request_timeout": Answer(408, _BAD, "request_timeout", "The request did not arrive in time."),
    "too_large": Answer(413, _BAD, "request_too_large", "The request body is larger than allowed."),
    "model_unreadable": Answer(
        413,
        _BAD,
        "model_not_readable",
        "The body is longer, or has more parts, than is inspected: the model is not known.",
    ),
    "unsupported_encoding": Answer(
        415,
        _BAD,
        "unsupported_content_encoding",
        "What decides over this request stands in its body: send it without Content-Encoding.",
    ),
    "misdirected": Answer(421, _BAD, "misdirected_request", "This host wants a connection of its own."),
    "uri_too_long": Answer(414, _BAD, "uri_too_long", "The request URI is too long."),
    "headers_too_large": Answer(431, _BAD, "headers_too_large", "The request headers are too large."),
    "rate_limited": Answer(
        429, "rate_limit_error", "rate_limit_exceeded", "Too many requests: slow down and try again.", 1
    ),
    "internal": Answer(500, _SERVER, "internal_error", "The gateway failed."),
    "bad_gateway": Answer(502, _SERVER, "bad_gateway", "The inference server failed to answer."),
    "unavailable": Answer(
        503, _SERVER, "service_unavailable", "No inference server can take the request now: try again.", 1
    ),
    "gateway_timeout": Answer(
        504, _SERVER, "gateway_timeout", "The inference server was too slow to answer."
    ),
}
"""By the name that targets use for the occasion."""

WHEN: dict[str, str] = {
    "bad_request": "the request or its path is malformed, has dot segments, or repeats a header that decides",
    "bad_body": "a body that decides is no JSON, though it claims to be",
    "bad_form": "a form or query that decides is malformed, or names the model twice",
    "odd_spelling": "a name or a number that decides is spelled in a way that NGINX cannot compare",
    "https_required": "plain HTTP on a port that speaks TLS; HAProxy and Envoy hang up",
    "no_certificate": "no certificate that `tls.client_ca` signed; HAProxy and Envoy end the handshake",
    "unauthorized": "no key, or one that is not known (`auth`)",
    "forbidden": "the client may not use this pool (`clients.*.pools`)",
    "address_refused": "the client's address is not in `allow`, or is in `deny`",
    "admin_refused": "an admin path of the engine (`pools.*.admin`)",
    "not_found": "no route fits, or the host is unknown",
    "model_not_found": "no route takes this model",
    "made_elsewhere": "a path with an id that one server made, where routes need a model",
    "method_not_allowed": "CONNECT and TRACE",
    "request_timeout": "a body that decides took longer than the listener's `timeouts` say; NGINX hangs up",
    "too_large": "the body is longer than `max_body`",
    "model_unreadable": "the body is longer, or has more parts, than is inspected (`inspect.body`)",
    "unsupported_encoding": "the body decides, and Content-Encoding hides it, whatever the encoding",
    "misdirected": "a host on a connection that was made for another, with another client authority",
    "uri_too_long": "a URL of more than 32 KiB; on Envoy 431, as a part of the headers",
    "headers_too_large": "headers of more than `header_size`",
    "rate_limited": "more requests than `limits` or the client's own allow, or more at once",
    "internal": "the balancer itself failed",
    "bad_gateway": "a server took the request, and hung up or answered what is no HTTP",
    "unavailable": "no server could be reached, all are busy and the queue is full, or the pool is empty",
    "gateway_timeout": "a server took the request, and was silent for longer than its `timeouts` say",
}
"""When each of them is given, for the reference."""
