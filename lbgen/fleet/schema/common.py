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

_CONNECT = "Timeout for connecting to a server."
_FIRST_BYTE = (
    "Timeout from the last byte of the request to the first byte of the response: queueing and prefill."
)
_IDLE = (
    "Timeout between two reads of a response. NGINX and HAProxy have one timer for this and first_byte;"
    " the larger value is rendered."
)
_SEND = "Timeout between two writes of a request to a server."
_TUNNEL = "Timeout of a WebSocket without data."

TIMEOUTS = Struct(
    "timeouts",
    Field("connect", Duration(), 3_000, _CONNECT, instead_of=("connection",)),
    Field("first_byte", Duration(), 10 * MINUTE, _FIRST_BYTE, example="15m", instead_of=("read", "response")),
    Field("idle", Duration(), 10 * MINUTE, _IDLE, example="30m", instead_of=("server", "gap")),
    Field("send", Duration(), MINUTE, _SEND, instead_of=("write", "client")),
    Field("tunnel", Duration(), HOUR, _TUNNEL, instead_of=("websocket",)),
)

ROUTE_TIMEOUTS = Struct(
    "timeouts that override those of the pool",
    *(field._replace(default=None, default_doc="the pool's") for field in TIMEOUTS.fields),
)

HEADERS = Struct(
    "changes to the request headers that servers receive",
    Field(
        "set",
        MapOf(HeaderName(settable=True), HeaderValue(empty=True)),
        {},
        "Headers to set; they replace those of the client. A value may be env:NAME or file:PATH. An"
        " empty value removes the header.",
        example={"X-Pool": "llama"},
        instead_of=("add",),
    ),
    Field(
        "remove",
        ListOf(HeaderName(settable=True), single=True),
        [],
        "Headers to remove.",
        example=["X-Debug"],
        instead_of=("unset", "delete", "hide"),
    ),
)

RESPONSE_HEADERS = Struct(
    "changes to the response headers that clients receive",
    Field(
        "set",
        MapOf(HeaderName(answered=True), HeaderValue()),
        {},
        "Headers to set; they replace those of the server. A value may be env:NAME or file:PATH.",
        example={"Cache-Control": "no-store"},
        instead_of=("add",),
    ),
    Field(
        "remove",
        ListOf(HeaderName(answered=True), single=True),
        [],
        "Headers to remove.",
        example=["X-Powered-By"],
        instead_of=("unset", "delete", "hide"),
    ),
)
