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
    "TLS for clients",
    Field(
        "certificate",
        FILE,
        doc=(
            "The certificate with its chain. Paths are absolute or relative to the balancer's"
            " configuration directory."
        ),
        example="fullchain.pem",
        instead_of=("cert", "crt"),
    ),
    Field("key", FILE, doc="The private key.", example="privkey.pem"),
    Field(
        "bundle", FILE, doc="Certificate, chain and key in one file.", example="both.pem", instead_of=("pem",)
    ),
    Field(
        "directory",
        FILE,
        doc="A directory of bundles, selected by server name (HAProxy).",
        example="certs/",
    ),
    Field(
        "profile",
        Choice("modern", "intermediate"),
        "intermediate",
        "TLS versions and ciphers, from Mozilla's guideline 5.7.",
    ),
    Field("hsts", Boolean(), default=False, doc="Whether to send Strict-Transport-Security."),
    Field(
        "client_ca",
        FILE,
        doc="Require client certificates that are signed by one of these authorities.",
        example="clients-ca.pem",
    ),
    groups=(Group(("certificate", "bundle", "directory")),),
)

EXTERNAL = Struct(
    "an HTTP service that authorises requests",
    Field(
        "url",
        URL,
        doc="Its URL. A 2xx response allows the request, 401 or 403 denies it.",
        example="http://auth:9000/check",
        required=True,
    ),
    Field(
        "forward",
        ListOf(HeaderName(), single=True),
        ["Authorization"],
        ("Request headers that are sent to it."),
    ),
)

AUTH = Struct(
    "authentication",
    Field(
        "clients",
        OneOf(scalar=Choice("all"), sequence=ListOf(CLIENT_NAME, least=1)),
        doc="The clients that may call.",
        default_doc="all, unless external is set",
        example="all",
    ),
    Field(
        "header",
        HeaderName(),
        "Authorization",
        "The location of the key: Authorization: Bearer KEY, or another header that contains only the key.",
        example="x-api-key",
    ),
    Field(
        "upstream",
        OneOf(
            scalar=Choice("strip", "pass"),
            mapping=Struct(
                "the key that servers receive",
                Field(
                    "set",
                    SecretKind(),
                    doc="A separate key for the servers.",
                    required=True,
                    example="env:ENGINE_KEY",
                ),
            ),
        ),
        "strip",
        "What servers receive: no key, the client's key, or a separate key.",
        example={"set": "env:ENGINE_KEY"},
    ),
    Field(
        "external",
        EXTERNAL,
        doc="An HTTP service that authorises requests.",
        example={"url": "http://auth:9000/check"},
    ),
    Field(
        "websocket_protocol",
        Text("a subprotocol's name", pattern=r"[A-Za-z0-9_-]{1,64}", limit=64),
        doc="The prefix of the WebSocket subprotocol PREFIX.KEY, in which browsers send the key because"
        " they cannot set headers. It is removed from the request.",
        example="openai-insecure-api-key",
    ),
    Field(
        "except",
        ListOf(NETWORK, single=True),
        [],
        ("Addresses from which no key is required."),
        example=["127.0.0.0/8"],
    ),
    groups=(Group(("clients", "external"), least=0),),
)

LIMIT = Struct(
    "a limit on requests",
    Field("rate", RateKind(), doc="The number of requests per time.", example="600/m"),
    Field(
        "burst",
        Integer(0, 1_000_000),
        0,
        ("The number of additional requests that may arrive at once."),
        unit="requests",
    ),
    Field(
        "concurrent",
        Integer(1, 1_000_000),
        doc="The maximum number of requests in flight; a rate does not limit long responses.",
        example=20,
        unit="requests",
        instead_of=("max_in_flight", "connections"),
    ),
    Field(
        "per",
        Choice("client", "ip", "total"),
        doc="What the limit applies to: each client, each address, or all requests together.",
        default_doc="client if clients have keys, else ip",
        example="client",
    ),
    groups=(Group(("rate", "concurrent"), most=2),),
)

ACME = Struct(
    "handling of ACME challenges",
    Field("pool", POOL_NAME, doc="A pool that answers them.", example="acme"),
    Field("webroot", FILE, doc="The directory with the challenge files.", example="/var/www/acme"),
    groups=(Group(("pool", "webroot")),),
)

CORS = Struct(
    "cross-origin requests (CORS)",
    Field(
        "origins",
        ListOf(ORIGIN, single=True, least=1),
        doc="Allowed origins.",
        example=["https://chat.example.org"],
        required=True,
    ),
    Field(
        "methods",
        ListOf(Choice(*METHODS), single=True, least=1),
        ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
        "Allowed methods.",
    ),
    Field(
        "headers",
        ListOf(HeaderName(), single=True, least=1),
        doc="Allowed request headers.",
        default_doc="those that the browser asks for",
        example=["Authorization", "Content-Type"],
    ),
    Field(
        "expose",
        ListOf(HeaderName(), single=True),
        [],
        "Response headers that pages may read, in addition to X-Request-Id, Retry-After and those that"
        " the server exposes itself.",
        example=["Mcp-Session-Id"],
    ),
    Field(
        "credentials",
        Boolean(),
        default=False,
        doc="Whether browsers may send cookies. Not required for keys in a header.",
    ),
    Field("max_age", Duration(0, 24 * HOUR), 2 * HOUR, "How long browsers cache the preflight response."),
)

CLIENT_TIMEOUTS = Struct(
    "timeouts for clients",
    Field(
        "keepalive",
        Duration(1_000, 24 * HOUR),
        75_000,
        "How long an idle connection stays open. Must be longer than the idle timeout of a load balancer"
        " in front: Google's requires more than 10m, AWS's more than 60s.",
        example="620s",
        instead_of=("idle", "keep_alive"),
    ),
    Field(
        "header",
        Duration(1_000, HOUR),
        MINUTE,
        "Timeout for receiving the headers of a request.",
        example="10s",
        instead_of=("headers", "request"),
    ),
    Field(
        "body",
        Duration(1_000, 24 * HOUR),
        MINUTE,
        "Timeout between two reads of a request body. For gRPC streams the pool's `idle` applies.",
        example="5m",
    ),
)

STATUS = Struct(
    "the balancer's own probe paths",
    Field(
        "live",
        OneOf(scalar=URL_PATH, off=True),
        "/lb/live",
        "The liveness probe: 200 while the balancer runs. false: none.",
    ),
    Field(
        "ready",
        OneOf(scalar=URL_PATH, off=True),
        "/lb/ready",
        "The readiness probe: 503 while no routed pool has an available server. false: none.",
    ),
    Field(
        "when",
        Choice("any_pool", "all_pools"),
        "any_pool",
        ("all_pools: 503 while any routed pool has no available server."),
    ),
)

INSPECT = Struct(
    "inspection of request bodies",
    Field(
        "body",
        Size(1024, 64 * MIB),
        MIB,
        "The inspected part of the body. If the model is not found in it, the response is 413. Uses this"
        " much memory per request.",
        unit="bytes",
    ),
)

LISTENER = Struct(
    "an address for clients",
    Field(
        "bind",
        ListOf(Bind(), single=True, least=1),
        doc="The listening address. A port alone: all IPv4 and IPv6 addresses.",
        default_doc="8080",
        example=["0.0.0.0:443", "[::]:443"],
        instead_of=("listen", "address", "port", "binds"),
    ),
    Field(
        "hosts",
        ListOf(HOST_PATTERN, single=True, least=1),
        doc="Host names that it serves. They distinguish listeners that share a bind.",
        default_doc="every host",
        example=["llm.example.org"],
        instead_of=("host", "server_name", "server_names"),
    ),
    Field(
        "tls",
        TLS,
        doc="TLS for clients.",
        example={"certificate": "fullchain.pem", "key": "privkey.pem"},
        instead_of=("ssl", "https"),
    ),
    Field(
        "redirect_from",
        ListOf(Bind(), single=True),
        doc="Addresses on which HTTP requests are redirected to HTTPS.",
        example=80,
    ),
    Field(
        "acme",
        ACME,
        doc="Handling of ACME challenges; they are not redirected to HTTPS.",
        example={"pool": "acme"},
    ),
    Field("http2", Boolean(), default=True, doc="Whether clients may use HTTP/2.", instead_of=("h2",)),
    Field(
        "max_body",
        Size(),
        64 * MIB,
        "The maximum size of a request body; larger ones get 413.",
        instead_of=("client_max_body_size", "body_size"),
    ),
    Field(
        "header_size",
        Size(*HEADER_SIZES),
        HEADER_SIZE,
        "The maximum size of request headers; larger ones get 431.",
        instead_of=("large_client_header_buffers", "max_header_size", "bufsize"),
    ),
    Field("inspect", INSPECT, doc="Inspection of request bodies for model, prefix and cost."),
    Field(
        "timeouts",
        CLIENT_TIMEOUTS,
        doc="Timeouts for clients.",
        example={"keepalive": "620s"},
        instead_of=("timeout",),
    ),
    Field(
        "behind_proxy",
        Boolean(),
        default=False,
        doc="Whether to tell a proxy in front, by X-Accel-Buffering, not to buffer responses.",
    ),
    Field(
        "explain",
        Boolean(),
        default=False,
        doc=(
            "Whether responses contain the reason for the selected server in X-LB-Decision: home,"
            " prompt, least, moved."
        ),
    ),
    Field(
        "trusted_proxies",
        ListOf(NETWORK, single=True),
        [],
        "Proxies whose X-Forwarded-For is trusted.",
        example=["10.0.0.0/8"],
    ),
    Field(
        "accept_proxy",
        Boolean(),
        default=False,
        doc="Whether connections begin with a PROXY protocol header.",
        instead_of=("proxy_protocol",),
    ),
    Field(
        "allow",
        ListOf(NETWORK, single=True, least=1),
        doc="Addresses that may send requests; others get 403. Probes and ACME challenges are open to all.",
        default_doc="every address",
        example=["10.0.0.0/8"],
        instead_of=("allow_from", "whitelist", "allowlist"),
    ),
    Field(
        "deny",
        ListOf(NETWORK, single=True, least=1),
        doc="Addresses that get 403; takes precedence over 'allow'.",
        default_doc="none",
        example=["10.9.0.0/16"],
        instead_of=("block", "blacklist", "denylist"),
    ),
    Field(
        "auth",
        OneOf(scalar=Choice("none"), mapping=AUTH),
        doc="Authentication; none: everybody may call.",
        default_doc="none; an error if the fleet has clients",
        example={"clients": "all"},
    ),
    Field(
        "limits",
        ListOf(LIMIT, single=True),
        [],
        "Limits on requests.",
        example=[{"rate": "600/m", "burst": 50, "per": "client"}],
        instead_of=("limit", "rate_limit"),
    ),
    Field(
        "cors",
        CORS,
        doc="Cross-origin requests (CORS).",
        example={"origins": ["https://chat.example.org"]},
    ),
    Field(
        "response_headers",
        RESPONSE_HEADERS,
        doc="Changes to the headers of all responses, including the balancer's own. Settings of a pool"
        " or route take precedence.",
        example={"set": {"Cache-Control": "no-store"}},
    ),
    Field(
        "websocket",
        Boolean(),
        default=False,
        doc="Whether all routes forward WebSocket handshakes. false: only routes with websocket: true.",
    ),
    Field(
        "routes",
        ListOf(ROUTE),
        doc="Routes: which requests go to which pool, the more specific first.",
        default_doc="all requests to the only pool; with several pools by model",
        example=[{"path": "/v1/embeddings", "pool": "embed"}],
    ),
    Field(
        "status",
        OneOf(mapping=STATUS, off=True),
        doc="The balancer's own probe paths. false: none.",
        example={"live": "/healthz"},
    ),
)

CLIENT = Struct(
    "a client: its API keys and limits",
    Field(
        "key",
        SecretKind(),
        doc="A reference to the key.",
        example="env:TEAM_A_KEY",
        instead_of=("token", "secret"),
    ),
    Field(
        "keys",
        ListOf(SecretKind(), least=1),
        doc="References to several keys, for key rotation.",
        example=["env:BATCH", "env:BATCH_NEXT"],
    ),
    Field("priority", PRIORITY, 0, "The priority in the queue; 0 is served first (HAProxy)."),
    Field(
        "rate", RateKind(), doc="The number of requests per time.", default_doc="no limit", example="600/m"
    ),
    Field(
        "burst",
        Integer(0, 1_000_000),
        0,
        ("The number of additional requests that may arrive at once."),
        unit="requests",
    ),
    Field(
        "max_in_flight",
        Integer(1, 1_000_000),
        doc="The maximum number of its requests in flight.",
        default_doc="no cap",
        example=20,
        instead_of=("concurrent",),
    ),
    Field(
        "pools",
        ListOf(POOL_NAME, single=True, least=1),
        doc="The pools that it may use; /v1/models lists only their models.",
        default_doc="all",
        example=["llama-70b"],
    ),
    groups=(Group(("key", "keys")),),
)
