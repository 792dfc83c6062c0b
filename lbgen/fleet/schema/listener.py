"""The fields of a listener, and of the clients who may call it."""

from lbgen.fields import (
    Boolean,
    Choice,
    Duration,
    Field,
    Group,
    Integer,
    ListOf,
    OneOf,
    RateKind,
    Size,
    Struct,
    Text,
)
from lbgen.fleet.address_kinds import HOST_PATTERN, NETWORK, Bind
from lbgen.fleet.header_kinds import HeaderName
from lbgen.fleet.kinds import FILE, ORIGIN, URL, URL_PATH, Name, SecretKind
from lbgen.fleet.schema.common import HEADER_SIZE, HEADER_SIZES, HOUR, MIB, MINUTE, RESPONSE_HEADERS
from lbgen.fleet.schema.route import METHODS, POOL_NAME, PRIORITY, ROUTE

CLIENT_NAME = Name("a client's name")

TLS = Struct(
    "TLS to the clients",
    Field(
        "certificate",
        FILE,
        doc="The certificate with its chain. Paths are the balancer's: absolute, or below its own directory.",
        example="fullchain.pem",
        instead_of=("cert", "crt"),
    ),
    Field("key", FILE, doc="Its key.", example="privkey.pem"),
    Field(
        "bundle", FILE, doc="Certificate, chain and key in one file.", example="both.pem", instead_of=("pem",)
    ),
    Field("directory", FILE, doc="A directory of bundles, chosen by name (HAProxy).", example="certs/"),
    Field(
        "profile",
        Choice("modern", "intermediate"),
        "intermediate",
        "Protocols and ciphers, as Mozilla's guideline 5.7 has them.",
    ),
    Field("hsts", Boolean(), default=False, doc="Whether browsers are told to come back with TLS only."),
    Field(
        "client_ca",
        FILE,
        doc="Clients have to show a certificate signed by one of these authorities.",
        example="clients-ca.pem",
    ),
    groups=(Group(("certificate", "bundle", "directory")),),
)

EXTERNAL = Struct(
    "an HTTP service that is asked whether a request may pass",
    Field(
        "url",
        URL,
        doc="It answers 2xx for yes, 401 or 403 for no.",
        example="http://auth:9000/check",
        required=True,
    ),
    Field("forward", ListOf(HeaderName(), single=True), ["Authorization"], "Headers that it gets to see."),
)

AUTH = Struct(
    "who may call",
    Field(
        "clients",
        OneOf(scalar=Choice("all"), sequence=ListOf(CLIENT_NAME, least=1)),
        doc="Which of the fleet's clients.",
        default_doc="all, unless external is there",
        example="all",
    ),
    Field(
        "header",
        HeaderName(),
        "Authorization",
        "Where the key is: Authorization: Bearer KEY, or another header that holds the key alone.",
        example="x-api-key",
    ),
    Field(
        "upstream",
        OneOf(
            scalar=Choice("strip", "pass"),
            mapping=Struct(
                "what the server sees",
                Field("set", SecretKind(), doc="A key of its own.", required=True, example="env:ENGINE_KEY"),
            ),
        ),
        "strip",
        "What the server sees of the key: nothing, the key, or another key in its place.",
        example={"set": "env:ENGINE_KEY"},
    ),
    Field(
        "external", EXTERNAL, doc="An HTTP service that is asked.", example={"url": "http://auth:9000/check"}
    ),
    Field(
        "websocket_protocol",
        Text("a subprotocol's name", pattern=r"[A-Za-z0-9_-]{1,64}", limit=64),
        doc="The subprotocol behind which, with a dot, browsers send the key of a WebSocket, as they can set "
        "no header. It is taken off.",
        example="openai-insecure-api-key",
    ),
    Field("except", ListOf(NETWORK, single=True), [], "Addresses that need no key.", example=["127.0.0.0/8"]),
    groups=(Group(("clients", "external"), least=0),),
)

LIMIT = Struct(
    "a bound on requests",
    Field("rate", RateKind(), doc="How many requests in how much time.", example="600/m"),
    Field("burst", Integer(0, 1_000_000), 0, "How many more may come at once.", unit="requests"),
    Field(
        "concurrent",
        Integer(1, 1_000_000),
        doc="How many may be in flight; a rate does not bound long answers.",
        example=20,
        unit="requests",
        instead_of=("max_in_flight", "connections"),
    ),
    Field(
        "per",
        Choice("client", "ip", "total"),
        doc="Whose requests are counted together.",
        default_doc="client where clients have keys, else ip",
        example="client",
    ),
    groups=(Group(("rate", "concurrent"), most=2),),
)

ACME = Struct(
    "where ACME challenges go",
    Field("pool", POOL_NAME, doc="A pool that answers them.", example="acme"),
    Field("webroot", FILE, doc="A directory that holds the answers.", example="/var/www/acme"),
    groups=(Group(("pool", "webroot")),),
)

CORS = Struct(
    "cross-origin requests of browsers",
    Field(
        "origins",
        ListOf(ORIGIN, single=True, least=1),
        doc="Origins that may call.",
        example=["https://chat.example.org"],
        required=True,
    ),
    Field(
        "methods",
        ListOf(Choice(*METHODS), single=True, least=1),
        ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
        "Methods that they may use.",
    ),
    Field(
        "headers",
        ListOf(HeaderName(), single=True, least=1),
        doc="Request headers that they may send.",
        default_doc="whatever the browser asks for",
        example=["Authorization", "Content-Type"],
    ),
    Field(
        "expose",
        ListOf(HeaderName(), single=True),
        [],
        "Response headers that pages may read, beside X-Request-Id, Retry-After and those that the server "
        "exposes itself.",
        example=["Mcp-Session-Id"],
    ),
    Field(
        "credentials",
        Boolean(),
        default=False,
        doc="Whether browsers may send cookies. Keys in a header need no such leave.",
    ),
    Field("max_age", Duration(0, 24 * HOUR), 2 * HOUR, "How long browsers remember the answer."),
)

CLIENT_TIMEOUTS = Struct(
    "how long to wait for clients",
    Field(
        "keepalive",
        Duration(1_000, 24 * HOUR),
        75_000,
        "How long an idle connection stays open. A load balancer in front should close first: Google's wants "
        "more than 10m, AWS's more than 60s.",
        example="620s",
        instead_of=("idle", "keep_alive"),
    ),
    Field(
        "header",
        Duration(1_000, HOUR),
        MINUTE,
        "How long the headers of a request may take.",
        example="10s",
        instead_of=("headers", "request"),
    ),
    Field(
        "body",
        Duration(1_000, 24 * HOUR),
        MINUTE,
        "How long the body of a request may pause. gRPC streams may be as quiet as the pool's `idle` allows.",
        example="5m",
    ),
)

STATUS = Struct(
    "the balancer's own probes",
    Field(
        "live",
        OneOf(scalar=URL_PATH, off=True),
        "/lb/live",
        "Always 200 while the balancer runs. false: none.",
    ),
    Field(
        "ready",
        OneOf(scalar=URL_PATH, off=True),
        "/lb/ready",
        "503 while no routed pool has a live server. false: none.",
    ),
    Field(
        "when", Choice("any_pool", "all_pools"), "any_pool", "all_pools: 503 while any routed pool has none."
    ),
)

INSPECT = Struct(
    "how much of a body is looked at",
    Field(
        "body",
        Size(1024, 64 * MIB),
        MIB,
        "A model that cannot be read within this is answered with 413. Memory per request.",
        unit="bytes",
    ),
)

LISTENER = Struct(
    "an address that clients call",
    Field(
        "bind",
        ListOf(Bind(), single=True, least=1),
        doc="Where it listens. A port alone: every address, IPv4 and IPv6.",
        default_doc="8080",
        example=["0.0.0.0:443", "[::]:443"],
        instead_of=("listen", "address", "port", "binds"),
    ),
    Field(
        "hosts",
        ListOf(HOST_PATTERN, single=True, least=1),
        doc="Host names that it answers to. Listeners that share a bind are told apart by them.",
        default_doc="every host",
        example=["llm.example.org"],
        instead_of=("host", "server_name", "server_names"),
    ),
    Field(
        "tls",
        TLS,
        doc="TLS to the clients.",
        example={"certificate": "fullchain.pem", "key": "privkey.pem"},
        instead_of=("ssl", "https"),
    ),
    Field("redirect_from", ListOf(Bind(), single=True), doc="Where plain HTTP is sent to HTTPS.", example=80),
    Field(
        "acme",
        ACME,
        doc="Where ACME challenges go; they are excepted from the redirect.",
        example={"pool": "acme"},
    ),
    Field("http2", Boolean(), default=True, doc="Whether clients may speak HTTP/2.", instead_of=("h2",)),
    Field(
        "max_body",
        Size(),
        64 * MIB,
        "The longest request body; longer ones are answered with 413.",
        instead_of=("client_max_body_size", "body_size"),
    ),
    Field(
        "header_size",
        Size(*HEADER_SIZES),
        HEADER_SIZE,
        "The longest headers of a request; longer ones are answered with 431.",
        instead_of=("large_client_header_buffers", "max_header_size", "bufsize"),
    ),
    Field("inspect", INSPECT, doc="How much of a body is looked at, for model, prefix and cost."),
    Field(
        "timeouts",
        CLIENT_TIMEOUTS,
        doc="How long to wait for clients.",
        example={"keepalive": "620s"},
        instead_of=("timeout",),
    ),
    Field(
        "behind_proxy",
        Boolean(),
        default=False,
        doc="Another proxy stands in front: X-Accel-Buffering is sent for it.",
    ),
    Field(
        "explain",
        Boolean(),
        default=False,
        doc="Answers say in X-LB-Decision why they came from their server: home, prompt, least, moved.",
    ),
    Field(
        "trusted_proxies",
        ListOf(NETWORK, single=True),
        [],
        "Proxies whose X-Forwarded-For is believed.",
        example=["10.0.0.0/8"],
    ),
    Field(
        "accept_proxy",
        Boolean(),
        default=False,
        doc="Whoever connects sends the PROXY protocol's header first.",
        instead_of=("proxy_protocol",),
    ),
    Field(
        "allow",
        ListOf(NETWORK, single=True, least=1),
        doc="Addresses that may send requests, others get 403. Probes and ACME's challenges are for all.",
        default_doc="every address",
        example=["10.0.0.0/8"],
        instead_of=("allow_from", "whitelist", "allowlist"),
    ),
    Field(
        "deny",
        ListOf(NETWORK, single=True, least=1),
        doc="Addresses that may not, whatever 'allow' says.",
        default_doc="none",
        example=["10.9.0.0/16"],
        instead_of=("block", "blacklist", "denylist"),
    ),
    Field(
        "auth",
        OneOf(scalar=Choice("none"), mapping=AUTH),
        doc="Who may call. none: everybody.",
        default_doc="none; an error where the fleet has clients",
        example={"clients": "all"},
    ),
    Field(
        "limits",
        ListOf(LIMIT, single=True),
        [],
        "Bounds on requests.",
        example=[{"rate": "600/m", "burst": 50, "per": "client"}],
        instead_of=("limit", "rate_limit"),
    ),
    Field(
        "cors",
        CORS,
        doc="Cross-origin requests of browsers.",
        example={"origins": ["https://chat.example.org"]},
    ),
    Field(
        "response_headers",
        RESPONSE_HEADERS,
        doc="Changes of the headers of all responses, the balancer's own among them. What a pool or a route "
        "says of a header wins.",
        example={"set": {"Cache-Control": "no-store"}},
    ),
    Field(
        "websocket",
        Boolean(),
        default=False,
        doc="Whether WebSocket handshakes are passed on by all routes. false: by those with websocket: true.",
    ),
    Field(
        "routes",
        ListOf(ROUTE),
        doc="Which requests go where, the more specific first.",
        default_doc="everything to the only pool; with several pools by their models",
        example=[{"path": "/v1/embeddings", "pool": "embed"}],
    ),
    Field(
        "status",
        OneOf(mapping=STATUS, off=True),
        doc="The balancer's own probes. false: none.",
        example={"live": "/healthz"},
    ),
)

CLIENT = Struct(
    "who may call, and how much",
    Field(
        "key",
        SecretKind(),
        doc="A reference to its key.",
        example="env:TEAM_A_KEY",
        instead_of=("token", "secret"),
    ),
    Field(
        "keys",
        ListOf(SecretKind(), least=1),
        doc="References to several keys, while they are rotated.",
        example=["env:BATCH", "env:BATCH_NEXT"],
    ),
    Field("priority", PRIORITY, 0, "0 is served first while requests wait (HAProxy)."),
    Field(
        "rate", RateKind(), doc="How many requests in how much time.", default_doc="no limit", example="600/m"
    ),
    Field("burst", Integer(0, 1_000_000), 0, "How many more may come at once.", unit="requests"),
    Field(
        "max_in_flight",
        Integer(1, 1_000_000),
        doc="How many of its requests may be in flight.",
        default_doc="no cap",
        example=20,
        instead_of=("concurrent",),
    ),
    Field(
        "pools",
        ListOf(POOL_NAME, single=True, least=1),
        doc="The pools that it may use; it sees the models of these alone.",
        default_doc="all",
        example=["llama-70b"],
    ),
    groups=(Group(("key", "keys")),),
)
