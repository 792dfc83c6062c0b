"""Fields that several parts of a fleet file share."""

from lbgen.fields import Duration, Field, ListOf, MapOf, Struct
from lbgen.fleet.header_kinds import HeaderName, HeaderValue

MINUTE = 60_000
HOUR = 60 * MINUTE
MIB = 1024**2
HEADER_SIZE = 32 * 1024
"""Bytes: cookies, long tokens and tool lists in headers pass; the programs' own defaults are 4 to 16 KiB."""
HEADER_SIZES = (4 * 1024, MIB)
"""The least and the most that can be asked for."""

_CONNECT = "How long connecting to a server may take."
_FIRST_BYTE = (
    "How long a server may take from the request's last byte to the answer's first: queueing and prefill."
)
_IDLE = (
    "How long an answer may pause. Both targets have one timer for this and first_byte; "
    "the larger of the two is rendered."
)
_SEND = "How long a request may pause while it is sent to a server."
_TUNNEL = "How long a WebSocket may be silent."

TIMEOUTS = Struct(
    "how long to wait",
    Field("connect", Duration(), 3_000, _CONNECT, instead_of=("connection",)),
    Field("first_byte", Duration(), 10 * MINUTE, _FIRST_BYTE, example="15m", instead_of=("read", "response")),
    Field("idle", Duration(), 10 * MINUTE, _IDLE, example="30m", instead_of=("server", "gap")),
    Field("send", Duration(), MINUTE, _SEND, instead_of=("write", "client")),
    Field("tunnel", Duration(), HOUR, _TUNNEL, instead_of=("websocket",)),
)

ROUTE_TIMEOUTS = Struct(
    "how long to wait, where this route differs from its pool",
    *(field._replace(default=None, default_doc="the pool's") for field in TIMEOUTS.fields),
)

HEADERS = Struct(
    "changes of the request's headers on the way to the server",
    Field(
        "set",
        MapOf(HeaderName(settable=True), HeaderValue(empty=True)),
        {},
        "Headers that are set, in place of what the client sent. A value may be env:NAME or file:PATH; an "
        "empty one removes the header.",
        example={"X-Pool": "llama"},
        instead_of=("add",),
    ),
    Field(
        "remove",
        ListOf(HeaderName(settable=True), single=True),
        [],
        "Headers that are removed.",
        example=["X-Debug"],
        instead_of=("unset", "delete", "hide"),
    ),
)

RESPONSE_HEADERS = Struct(
    "changes of the response's headers on the way to the client",
    Field(
        "set",
        MapOf(HeaderName(answered=True), HeaderValue()),
        {},
        "Headers that are set, in place of what the server sent. A value may be env:NAME or file:PATH.",
        example={"Cache-Control": "no-store"},
        instead_of=("add",),
    ),
    Field(
        "remove",
        ListOf(HeaderName(answered=True), single=True),
        [],
        "Headers that are removed.",
        example=["X-Powered-By"],
        instead_of=("unset", "delete", "hide"),
    ),
)
