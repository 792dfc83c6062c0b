"""The fields of a pool and of its servers."""

from typing import TYPE_CHECKING

from lbgen.engines import ENGINE_ALIASES, ENGINES
from lbgen.fields import (
    Boolean,
    Choice,
    Duration,
    Field,
    Group,
    Integer,
    ListOf,
    MapOf,
    OneOf,
    Size,
    Struct,
    Text,
    Variants,
)
from lbgen.fields.composites import KNOWN_KEYS
from lbgen.fleet.address_kinds import CALLER, HOST_PATTERN, Addresses, host_header, resolver
from lbgen.fleet.header_kinds import HeaderName, HeaderValue
from lbgen.fleet.kinds import FILE, MODEL, URL_PATH_QUERY, ServerName
from lbgen.fleet.schema.common import (
    HEADER_SIZE,
    HEADER_SIZES,
    HEADERS,
    HOUR,
    MINUTE,
    RESPONSE_HEADERS,
    TIMEOUTS,
)
from lbgen.strategies.registry import ALIASES, DEFAULT_STRATEGY, STRATEGIES

if TYPE_CHECKING:
    from lbgen.fields.base import Node

_CAP_DOC = (
    "The maximum number of requests in flight at one server, from all balancers together: NGINX"
    " max_conns, HAProxy maxconn."
)
_CAPS = ("maxconn", "max_conns", "max_connections", "max_inflight", "concurrency", "parallelism", "limit")


class _Server(Struct):
    """A server's mapping; ``- gpu-2: 8000`` looks like one and is an address with a space too many."""

    __slots__ = ()

    def suggestion(self, name: str, value: "Node") -> str:
        advice = super().suggestion(name, value)
        unlike = advice.startswith(KNOWN_KEYS) and name not in ("port", "id")
        if unlike and value.id == "scalar" and value.value.isdecimal():
            return f"write the address without a space: {name}:{value.value}"
        return advice


SERVER = _Server(
    "a server, or several with a range",
    Field(
        "address",
        Addresses(),
        doc="host:port, or unix:PATH for a Unix socket. Ranges expand: gpu-[0-3]:8000,"
        " 10.0.0.[7-9]:8000, gpu-0:[8000-8003], unix:/run/vllm/[0-3].sock. The balancer's user needs"
        " write access to a socket.",
        example="gpu-[0-3]:8000",
        required=True,
        instead_of=("host", "url", "server", "endpoint", "addr"),
    ),
    Field(
        "name",
        ServerName(),
        doc="The name in logs, metrics and commands; {n} is the number in the range.",
        default_doc="the host; host-port if a host has several servers; the path of a socket",
        example="gpu{n}",
    ),
    Field(
        "weight",
        Integer(0, 256),
        1,
        "The server's share of requests, requests in flight or keys, depending on the strategy. 0: drained.",
    ),
    Field("max_in_flight", Integer(1), doc=_CAP_DOC, default_doc="the pool's", example=64, instead_of=_CAPS),
    Field(
        "backup",
        Boolean(),
        default=False,
        doc="Use this server only if no other server of the pool is available.",
    ),
    Field(
        "state",
        Choice("up", "drain", "down"),
        "up",
        "drain: no new requests; requests in flight finish. down: out of rotation.",
        instead_of=("status", "enabled", "disabled"),
    ),
)

STRATEGY = Variants(
    "name",
    Choice(*STRATEGIES, aliases=ALIASES),
    {
        strategy.name: Struct(
            f"parameters of {strategy.name}",
            Field(
                "name",
                Choice(
                    strategy.name, aliases={key: to for key, to in ALIASES.items() if to == strategy.name}
                ),
                doc=f"{strategy.name} {strategy.summary}.",
                required=True,
            ),
            *strategy.parameters,
            groups=strategy.groups,
        )
        for strategy in STRATEGIES.values()
    },
)

QUEUE = Struct(
    "the queue while every server is at max_in_flight (HAProxy)",
    Field(
        "size",
        Integer(1, 100_000),
        512,
        "The maximum number of waiting requests. Each thread of HAProxy checks separately, so each"
        " further thread may add one.",
        unit="requests",
    ),
    Field("timeout", Duration(), MINUTE, "The maximum wait; then the response is 503."),
    Field(
        "order",
        Choice("fifo", "shortest_first"),
        "fifo",
        "shortest_first lets requests of low estimated cost overtake costly ones, within a limit.",
    ),
)

HEALTH = Struct(
    "active checks",
    Field(
        "path",
        URL_PATH_QUERY,
        doc="The path to check. It should return 200 only if the engine can serve requests.",
        default_doc="the engine's path; for openai and http only a TCP connection",
        example="/health",
        instead_of=("uri", "url", "endpoint"),
    ),
    Field("interval", Duration(100), 5_000, "The interval between checks.", instead_of=("inter",)),
    Field("timeout", Duration(100), 5_000, "The timeout of a check."),
    Field("rise", Integer(1, 100), 2, "Consecutive successful checks that bring a server back."),
    Field("fall", Integer(1, 100), 3, "Consecutive failed checks that take a server out."),
    Field("expect", Integer(200, 599), 200, "The expected status.", instead_of=("status",)),
    Field(
        "port",
        Integer(1, 65_535),
        doc="The port to check.",
        default_doc="the server's port",
        example=8001,
    ),
    Field(
        "headers",
        MapOf(HeaderName(settable=True), HeaderValue()),
        {},
        "Headers of the check. A value may be env:NAME or file:PATH.",
        example={"Authorization": "env:HEALTH_AUTHORIZATION"},
    ),
)

PASSIVE_HEALTH = Struct(
    "ejection of servers whose requests fail",
    Field("failures", Integer(0, 1000), 3, "Failures within the window that eject a server; 0: never."),
    Field("window", Duration(1_000), 10_000, "The time window in which failures are counted."),
    Field("eject", Duration(1_000), 10_000, "How long a server is ejected."),
)

RETRY = Struct(
    "retries",
    Field(
        "attempts",
        Integer(0, 10),
        1,
        ("The maximum number of retries."),
        instead_of=("retries", "tries", "max"),
    ),
    Field(
        "on",
        ListOf(Choice("connect", "reset", "timeout", "429", "502", "503", "504"), single=True),
        ["connect"],
        "The failures to retry. All except connect may make a server do the same work twice.",
        example=["connect", 503],
    ),
    Field("within", Duration(), 10_000, "No retry starts later than this."),
    Field(
        "replay_posts",
        Boolean(),
        default=False,
        doc="Whether to retry POST requests that may have reached a server; they may be computed twice.",
    ),
)

KEEPALIVE = Struct(
    "idle connections to the servers",
    Field(
        "idle",
        Integer(1, 100_000),
        64,
        ("The maximum number of idle connections, per worker process (NGINX)."),
    ),
    Field(
        "idle_timeout",
        Duration(100, HOUR),
        doc="How long an idle connection stays open. Must be shorter than the engine's timeout.",
        default_doc="one second less than the engine's: 4s for vLLM, SGLang and other uvicorn servers",
        example="4s",
        instead_of=("timeout",),
    ),
    Field("requests", Integer(1), 1000, "The maximum number of requests over one connection."),
)

TLS = Struct(
    "TLS to the servers",
    Field(
        "ca",
        FILE,
        doc="The certificate authorities of the servers' certificates.",
        default_doc="the system's",
        example="/etc/lb/ca.pem",
    ),
    Field(
        "server_name",
        HOST_PATTERN,
        doc="The server name to send (SNI) and to verify.",
        default_doc="the server's host",
        example="gpu.internal",
        instead_of=("sni",),
    ),
    Field("verify", Boolean(), default=True, doc="Whether to verify certificates."),
    Field(
        "certificate",
        FILE,
        doc="The balancer's client certificate, for servers that require one.",
        example="/etc/lb/client.pem",
        instead_of=("cert", "client_cert"),
    ),
    Field("key", FILE, doc="The private key.", example="/etc/lb/client.key"),
)

DNS = Struct(
    "DNS resolution of server names",
    Field(
        "mode",
        Choice("static", "runtime"),
        "static",
        "static: at start and reload. runtime: periodically, while running.",
    ),
    Field(
        "resolver",
        ListOf(Text("the address of a DNS server", limit=64, parse=resolver), single=True),
        [],
        "The DNS servers to query at run time.",
        example=["10.0.0.10:53"],
        instead_of=("resolvers", "nameserver"),
    ),
    Field("valid", Duration(1_000), 10_000, "How long a DNS response is valid.", instead_of=("ttl",)),
)

DISCOVER = Struct(
    "servers from DNS or from a file",
    Field(
        "dns",
        HOST_PATTERN,
        doc="A host name; each of its addresses is a server.",
        example="vllm.svc.cluster.local",
    ),
    Field("port", Integer(1, 65_535), doc="The servers' port, with dns.", example=8000),
    Field("max", Integer(1, 1000), 32, "The maximum number of servers."),
    Field(
        "file",
        FILE,
        doc="A Prometheus file_sd file, JSON or YAML, relative to the fleet file; read at render time."
        " Supported labels: __weight__ or weight, and name.",
        example="targets.json",
    ),
    groups=(Group(("dns", "file")),),
)

POOL = Struct(
    "servers that can answer the same requests",
    Field(
        "engine",
        Choice(*ENGINES, aliases=ENGINE_ALIASES),
        "openai",
        "The servers' software. It determines the health path, the idle timeout of connections and the"
        " metric names.",
        example="vllm",
        instead_of=("type", "backend", "runtime"),
    ),
    Field(
        "models",
        ListOf(MODEL, single=True),
        [],
        "Names of the models that the pool serves; '*' matches any text. If routes select by model,"
        " /v1/models lists them.",
        example=["meta-llama/Llama-3.3-70B-Instruct", "llama-70b*"],
        instead_of=("model",),
    ),
    Field(
        "strategy",
        STRATEGY,
        {"name": DEFAULT_STRATEGY},
        "How requests are distributed over the servers.",
        example="least_conn",
        instead_of=("balance", "algorithm", "method", "lb", "policy", "load_balancing", "lb_policy"),
    ),
    Field(
        "servers",
        ListOf(OneOf(scalar=Addresses(), mapping=SERVER), single=True),
        doc="The servers, each host:port, unix:PATH or a mapping.",
        example=["gpu-[0-3]:8000"],
        instead_of=("backends", "upstreams", "upstream", "endpoints", "hosts", "nodes", "members", "targets"),
    ),
    Field(
        "max_in_flight",
        Integer(1),
        doc=_CAP_DOC,
        default_doc="no cap",
        example=32,
        unit="requests",
        instead_of=_CAPS,
    ),
    Field("queue", QUEUE, doc="The queue while every server is at max_in_flight."),
    Field(
        "health",
        OneOf(scalar=Choice("tcp"), mapping=HEALTH, off=True),
        doc="Active health checks (HAProxy). tcp: only a TCP connection. false: none.",
        default_doc="the engine's path, every 5s",
        example={"path": "/health"},
        instead_of=("healthcheck", "health_check", "check", "checks"),
    ),
    Field(
        "passive_health",
        OneOf(mapping=PASSIVE_HEALTH, off=True),
        doc="Ejection of servers whose requests fail. false: never.",
        default_doc="3 failures in 10s eject a server for 10s",
        example={"failures": 5},
    ),
    Field(
        "warmup",
        OneOf(scalar=Duration(1_000), off=True),
        doc="How long the share of a returning server grows from low to full (HAProxy).",
        default_doc="none",
        example="30s",
        instead_of=("slow_start", "slowstart"),
    ),
    Field(
        "retry",
        OneOf(mapping=RETRY, off=True),
        doc="Retries. false: none.",
        default_doc="one, if a connection fails",
        example={"attempts": 2},
        instead_of=("retries",),
    ),
    Field(
        "timeouts", TIMEOUTS, doc="How long to wait.", example={"first_byte": "15m"}, instead_of=("timeout",)
    ),
    Field(
        "keepalive",
        OneOf(mapping=KEEPALIVE, off=True),
        doc="Idle connections to the servers. false: each request opens a new connection.",
        default_doc="64, for one second less than the engine's timeout",
        example={"idle": 128},
        instead_of=("keep_alive",),
    ),
    Field(
        "tls",
        OneOf(scalar=Boolean(), mapping=TLS),
        doc="TLS to the servers; true: with the system's certificate authorities.",
        default_doc="false",
        example={"ca": "/etc/lb/ca.pem"},
        instead_of=("ssl", "https"),
    ),
    Field(
        "protocol",
        Choice("http", "h2c", "grpc"),
        "http",
        "The servers' protocol: HTTP/1.1, HTTP/2 without TLS, gRPC.",
    ),
    Field(
        "host_header",
        Text("client, backend, or a host", limit=255, parse=host_header),
        "client",
        "The Host header that servers receive: the client's, the server's own address, or a fixed value.",
        example="backend",
        instead_of=("host",),
    ),
    Field(
        "header_size",
        Size(*HEADER_SIZES),
        HEADER_SIZE,
        "The maximum size of response headers; larger ones result in 502. NGINX forwards up to eight"
        " times as much, and counts larger headers as a failure of the server.",
        instead_of=("proxy_buffer_size", "max_header_size"),
    ),
    Field("headers", HEADERS, doc="Changes to the request headers.", example={"remove": ["X-Debug"]}),
    Field(
        "response_headers",
        RESPONSE_HEADERS,
        doc="Changes to the response headers of the servers.",
        example={"remove": ["Server-Timing"]},
    ),
    Field(
        "request_buffering",
        Boolean(),
        doc=(
            "true: a request is sent to a server when it is complete. false: while it is received, for"
            " uploads."
        ),
        default_doc="true on NGINX, false on HAProxy",
        example=False,
        instead_of=("proxy_request_buffering", "buffer_requests"),
    ),
    Field("dns", DNS, doc="DNS resolution of server names.", example={"mode": "runtime"}),
    Field(
        "discover",
        DISCOVER,
        doc="Instead of servers: a DNS name or a file that lists them.",
        example={"dns": "vllm.svc.cluster.local", "port": 8000},
    ),
    Field(
        "admin",
        OneOf(
            scalar=Choice("refuse", "pass"),
            mapping=Struct(
                "access to admin paths",
                Field(
                    "clients",
                    ListOf(CALLER, single=True, least=1),
                    doc="Names of clients, and networks.",
                    example=["ops", "10.0.0.0/24"],
                    required=True,
                ),
            ),
        ),
        doc="Access to the engine's admin paths: load and unload models and adapters, sleep, clear"
        " caches. refuse: all requests get 403. pass: everybody who may use the pool.",
        default_doc="refuse, for engines with such paths",
        example={"clients": ["10.0.0.0/24"]},
    ),
    Field(
        "allow_empty",
        Boolean(),
        default=False,
        doc="Whether the pool may have no servers; it then returns 503.",
    ),
    Field("standby", Boolean(), default=False, doc="The pool intentionally has no route."),
    groups=(
        Group(("servers", "discover"), least=0),
        Group(("servers", "discover", "allow_empty"), most=3),
    ),
)
