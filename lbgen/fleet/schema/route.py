"""The fields of a route."""

from lbgen.fields import (
    Anything,
    Boolean,
    Choice,
    Field,
    Group,
    Integer,
    ListOf,
    MapOf,
    OneOf,
    Size,
    Struct,
    Text,
)
from lbgen.fleet.address_kinds import HOST_PATTERN
from lbgen.fleet.header_kinds import HeaderName, HeaderValue
from lbgen.fleet.kinds import FIELD_NAME, FIELD_VALUE, MODEL, ROUTE_PATH, URL_PATH, Name
from lbgen.fleet.schema.common import HEADERS, RESPONSE_HEADERS, ROUTE_TIMEOUTS

POOL_NAME = Name("a pool's name")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
PRIORITY = Integer(0, 100)

RESPOND = Struct(
    "a fixed response",
    Field("status", Integer(200, 599), 200, "The status."),
    Field("json", Anything(), doc="The body, as data.", example={"object": "list", "data": []}),
    Field("body", Text("a text", limit=4096), doc="The body, as text.", example="gone"),
    Field(
        "content_type",
        Text("a media type", pattern=r"[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+(; ?charset=[A-Za-z0-9-]+)?"),
        doc="The media type of the body.",
        default_doc="text/plain; application/json with json",
        example="text/html",
    ),
    groups=(Group(("json", "body"), least=0), Group(("json", "content_type"), least=0)),
)

BY = OneOf(
    scalar=Choice("request", "client"),
    mapping=Struct(
        "the key of a split",
        Field(
            "header",
            HeaderName(),
            doc="The header that determines the pool.",
            example="X-User",
            required=True,
        ),
    ),
)

ROUTE = Struct(
    "a route: all its conditions have to match",
    Field(
        "name",
        Name("a route's name"),
        doc="The name in logs and messages.",
        default_doc="its number",
    ),
    Field(
        "host",
        ListOf(HOST_PATTERN, single=True, least=1),
        doc="Hosts.",
        example="llm.example.org",
        instead_of=("hosts",),
    ),
    Field(
        "method",
        ListOf(Choice(*METHODS), single=True, least=1),
        doc="Methods.",
        example="POST",
        instead_of=("methods",),
    ),
    Field(
        "path",
        ListOf(ROUTE_PATH, single=True, least=1),
        doc="A prefix of whole path segments: /gpt matches /gpt and /gpt/x, not /gptx. A final /{model}"
        " matches one segment, the model.",
        example="/v1/embeddings",
        instead_of=("prefix", "path_prefix", "paths", "location"),
    ),
    Field(
        "path_exact", ListOf(URL_PATH, single=True, least=1), doc="Exactly this path.", example="/v1/models"
    ),
    Field(
        "header",
        MapOf(HeaderName(), HeaderValue(compared=True), least=1),
        doc="Headers with these values.",
        example={"X-Tier": "batch"},
    ),
    Field(
        "query",
        MapOf(FIELD_NAME, FIELD_VALUE, least=1),
        doc="Parameters of the query that have to have these values; '*' stands for anything, and alone for "
        "any value but an empty one.",
        example={"model": "voxtral*"},
    ),
    Field(
        "form",
        MapOf(FIELD_NAME, FIELD_VALUE, least=1),
        doc="Fields of a form (multipart or URL-encoded) with these values, as in query.",
        example={"model": "whisper*"},
    ),
    Field(
        "model",
        ListOf(MODEL, single=True, least=1),
        doc="The model in the body, a form, the query or the path; '*' matches any text.",
        example="llama-70b*",
        instead_of=("models",),
    ),
    Field("prompt_over", Size(), doc="The body is longer than this.", example="32KiB", unit="bytes"),
    Field("prompt_under", Size(), doc="The body is shorter than this.", example="4KiB", unit="bytes"),
    Field(
        "max_tokens_over",
        Integer(0, 10_000_000),
        unit="tokens",
        example=4096,
        doc="The request allows more tokens than this (max_tokens or max_completion_tokens).",
    ),
    Field(
        "websocket",
        Boolean(),
        doc="Whether the request is a WebSocket handshake. true forwards it on this route.",
        example=True,
    ),
    Field(
        "pool",
        POOL_NAME,
        doc="The pool of its requests.",
        example="llama-70b",
        instead_of=("backend", "upstream", "to", "target"),
    ),
    Field(
        "split",
        MapOf(POOL_NAME, Integer(0, 1_000_000), least=1),
        doc="Several pools with relative shares.",
        example={"llama-70b": 95, "canary": 5},
    ),
    Field(
        "respond",
        RESPOND,
        doc="A fixed response.",
        example={"status": 404, "body": "gone"},
        instead_of=("return", "response"),
    ),
    Field(
        "by",
        BY,
        "request",
        "The key of a split: random per request, or the same pool for the same client or header.",
    ),
    Field(
        "when_down",
        POOL_NAME,
        doc="The pool to use while the other has no available server.",
        example="llama-70b",
        instead_of=("fallback", "backup"),
    ),
    Field(
        "strip_prefix",
        Boolean(),
        default=False,
        doc="Whether to remove `path` from the path that servers receive.",
    ),
    Field("add_prefix", URL_PATH, doc="A prefix to add to the path that servers receive.", example="/v1"),
    Field(
        "priority",
        PRIORITY,
        doc="The priority in the queue; 0 is served first (HAProxy).",
        default_doc="the client's",
        example=9,
    ),
    Field(
        "timeouts", ROUTE_TIMEOUTS, doc="Timeouts that override those of the pool.", example={"idle": "30m"}
    ),
    Field(
        "headers", HEADERS, doc="Additional changes to the request headers.", example={"set": {"X-A": "b"}}
    ),
    Field(
        "response_headers",
        RESPONSE_HEADERS,
        doc="Additional changes to the response headers.",
        example={"set": {"X-A": "b"}},
    ),
    groups=(Group(("pool", "split", "respond")), Group(("path", "path_exact"), least=0)),
)
