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
    "a fixed answer",
    Field("status", Integer(200, 599), 200, "Its status."),
    Field("json", Anything(), doc="Its body, as data.", example={"object": "list", "data": []}),
    Field("body", Text("a text", limit=4096), doc="Its body, as text.", example="gone"),
    Field(
        "content_type",
        Text("a media type", pattern=r"[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+(; ?charset=[A-Za-z0-9-]+)?"),
        doc="The type of the body.",
        default_doc="text/plain; application/json with json",
        example="text/html",
    ),
    groups=(Group(("json", "body"), least=0), Group(("json", "content_type"), least=0)),
)

BY = OneOf(
    scalar=Choice("request", "client"),
    mapping=Struct(
        "what a split is by",
        Field("header", HeaderName(), doc="The header whose value decides.", example="X-User", required=True),
    ),
)

ROUTE = Struct(
    "which requests go where; all conditions of a route have to hold",
    Field(
        "name",
        Name("a route's name"),
        doc="What it is called in logs and messages.",
        default_doc="its number",
    ),
    Field(
        "host",
        ListOf(HOST_PATTERN, single=True, least=1),
        doc="Hosts that it takes.",
        example="llm.example.org",
        instead_of=("hosts",),
    ),
    Field(
        "method",
        ListOf(Choice(*METHODS), single=True, least=1),
        doc="Methods that it takes.",
        example="POST",
        instead_of=("methods",),
    ),
    Field(
        "path",
        ListOf(ROUTE_PATH, single=True, least=1),
        doc="A path of whole segments and everything below it: /gpt takes /gpt and /gpt/x, not /gptx."
        " /{model} at its end is one more segment, which names the model.",
        example="/v1/embeddings",
        instead_of=("prefix", "path_prefix", "paths", "location"),
    ),
    Field(
        "path_exact", ListOf(URL_PATH, single=True, least=1), doc="Exactly this path.", example="/v1/models"
    ),
    Field(
        "header",
        MapOf(HeaderName(), HeaderValue(compared=True), least=1),
        doc="Headers that have to have these values.",
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
        doc="Fields of a form, in parts or url-encoded, that have to have these values, as in query.",
        example={"model": "whisper*"},
    ),
    Field(
        "model",
        ListOf(MODEL, single=True, least=1),
        doc="The model that the body, a form, the query or the path names; '*' stands for anything.",
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
        doc="The body asks for more tokens than this (max_tokens or max_completion_tokens).",
    ),
    Field(
        "websocket",
        Boolean(),
        doc="Whether it is a WebSocket handshake. true passes it on, on this route alone.",
        example=True,
    ),
    Field(
        "pool",
        POOL_NAME,
        doc="Where its requests go.",
        example="llama-70b",
        instead_of=("backend", "upstream", "to", "target"),
    ),
    Field(
        "split",
        MapOf(POOL_NAME, Integer(0, 1_000_000), least=1),
        doc="Several pools, each with its share; the numbers are relative.",
        example={"llama-70b": 95, "canary": 5},
    ),
    Field(
        "respond",
        RESPOND,
        doc="A fixed answer.",
        example={"status": 404, "body": "gone"},
        instead_of=("return", "response"),
    ),
    Field(
        "by",
        BY,
        "request",
        "What a split is by: each request anew, or the same for the same client or header.",
    ),
    Field(
        "when_down",
        POOL_NAME,
        doc="The pool that takes over while the other has no live server.",
        example="llama-70b",
        instead_of=("fallback", "backup"),
    ),
    Field(
        "strip_prefix", Boolean(), default=False, doc="Whether `path` is taken off before the server sees it."
    ),
    Field("add_prefix", URL_PATH, doc="What is put before the path that the server sees.", example="/v1"),
    Field(
        "priority",
        PRIORITY,
        doc="0 is served first while requests wait (HAProxy).",
        default_doc="the client's",
        example=9,
    ),
    Field("timeouts", ROUTE_TIMEOUTS, doc="Where they differ from the pool's.", example={"idle": "30m"}),
    Field("headers", HEADERS, doc="Further changes of the request's headers.", example={"set": {"X-A": "b"}}),
    Field(
        "response_headers",
        RESPONSE_HEADERS,
        doc="Further changes of the response's headers.",
        example={"set": {"X-A": "b"}},
    ),
    groups=(Group(("pool", "split", "respond")), Group(("path", "path_exact"), least=0)),
)
