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
    "The most requests in flight at one server, from all balancers together: "
    "NGINX max_conns, HAProxy maxconn."
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
    "a server, or with a range several alike",
    Field(
        "address",
        Addresses(),
        doc="host:port, or unix:PATH for a Unix socket. Ranges expand: gpu-[0-3]:8000, 10.0.0.[7-9]:8000, "
        "gpu-0:[8000-8003], unix:/run/vllm/[0-3].sock. The balancer's user has to be let write to a socket.",
        example="gpu-[0-3]:8000",
        required=True,
        instead_of=("host", "url", "server", "endpoint", "addr"),
    ),
    Field(
        "name",
        ServerName(),
        doc="What it is called in logs, metrics and commands; {n} is its number in the range.",
        default_doc="the host, or host-port where a host has several servers; of a socket its path",
        example="gpu{n}",
    ),
    Field(
        "weight",
        Integer(0, 256),
        1,
        "Its share: of requests, of requests in flight, or of keys, as the strategy counts. 0: drained.",
    ),
    Field("max_in_flight", Integer(1), doc=_CAP_DOC, default_doc="the pool's", example=64, instead_of=_CAPS),
    Field("backup", Boolean(), default=False, doc="Used only when no other server of the pool is alive."),
    Field(
        "state",
        Choice("up", "drain", "down"),
        "up",
        "drain: no new requests, those in flight finish. down: out of rotation.",
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
    "where requests wait while every server is at its cap (HAProxy)",
    Field(
        "size",
        Integer(1, 100_000),
        512,
        "How many may wait; each thread of HAProxy looks for itself, so one more per further thread at most.",
        unit="requests",
    ),
    Field("timeout", Duration(), MINUTE, "How long one may wait before it is answered with 503."),
    Field(
        "order",
        Choice("fifo", "shortest_first"),
        "fifo",
        "shortest_first lets requests that will cost little pass those that will cost much, within a bound.",
    ),
)

HEALTH = Struct(
    "active checks",
    Field(
        "path",
        URL_PATH_QUERY,
        doc="What is asked for. It should answer 200 only when the engine can serve.",
        default_doc="the engine's; for openai and http only whether a TCP connection opens",
        example="/health",
        instead_of=("uri", "url", "endpoint"),
    ),
    Field("interval", Duration(100), 5_000, "The time between two checks.", instead_of=("inter",)),
    Field("timeout", Duration(100), 5_000, "How long a check may take."),
    Field("rise", Integer(1, 100), 2, "So many good checks bring a server back."),
    Field("fall", Integer(1, 100), 3, "So many bad checks take a server out."),
    Field("expect", Integer(200, 599), 200, "The status that is good.", instead_of=("status",)),
    Field(
        "port",
        Integer(1, 65_535),
        doc="The port that is asked.",
        default_doc="the server's own",
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
    "ejection by the failures of real requests",
    Field("failures", Integer(0, 1000), 3, "So many failures within the window eject a server; 0: never."),
    Field("window", Duration(1_000), 10_000, "The time in which failures are counted."),
    Field("eject", Duration(1_000), 10_000, "How long a server stays out."),
)

RETRY = Struct(
    "further tries after the first",
    Field("attempts", Integer(0, 10), 1, "How many further tries.", instead_of=("retries", "tries", "max")),
    Field(
        "on",
        ListOf(Choice("connect", "reset", "timeout", "429", "502", "503", "504"), single=True),
        ["connect"],
        "What is tried again. Everything but connect may make a server do the same work twice.",
        example=["connect", 503],
    ),
    Field("within", Duration(), 10_000, "No try begins later than this."),
    Field(
        "replay_posts",
        Boolean(),
        default=False,
        doc="Whether POST requests that may have reached a server are sent again, perhaps paid for twice.",
    ),
)

KEEPALIVE = Struct(
    "idle connections that are kept open to the servers",
    Field("idle", Integer(1, 100_000), 64, "How many are kept, per worker process (NGINX)."),
    Field(
        "idle_timeout",
        Duration(100, HOUR),
        doc="How long one is kept; it has to be shorter than the engine keeps it.",
        default_doc="one second less than the engine's: 4s for vLLM, SGLang and what else runs on uvicorn",
        example="4s",
        instead_of=("timeout",),
    ),
    Field("requests", Integer(1), 1000, "So many requests are sent over one connection."),
)

TLS = Struct(
    "TLS to the servers",
    Field(
        "ca",
        FILE,
        doc="The authorities that sign the servers' certificates.",
        default_doc="the system's",
        example="/etc/lb/ca.pem",
    ),
    Field(
        "server_name",
        HOST_PATTERN,
        doc="The name that is asked for and verified.",
        default_doc="the server's host",
        example="gpu.internal",
        instead_of=("sni",),
    ),
    Field("verify", Boolean(), default=True, doc="Whether certificates are verified."),
    Field(
        "certificate",
        FILE,
        doc="The balancer's own certificate, for servers that ask for one.",
        example="/etc/lb/client.pem",
        instead_of=("cert", "client_cert"),
    ),
    Field("key", FILE, doc="Its key.", example="/etc/lb/client.key"),
)

DNS = Struct(
    "how host names of servers are looked up",
    Field(
        "mode",
        Choice("static", "runtime"),
        "static",
        "static: once, at start and reload. runtime: again and again, while running.",
    ),
    Field(
        "resolver",
        ListOf(Text("the address of a DNS server", limit=64, parse=resolver), single=True),
        [],
        "The DNS servers that are asked at run time.",
        example=["10.0.0.10:53"],
        instead_of=("resolvers", "nameserver"),
    ),
    Field("valid", Duration(1_000), 10_000, "How long an answer is believed.", instead_of=("ttl",)),
)

DISCOVER = Struct(
    "servers that a name or a file stands for",
    Field(
        "dns", HOST_PATTERN, doc="One name whose addresses are the servers.", example="vllm.svc.cluster.local"
    ),
    Field("port", Integer(1, 65_535), doc="Their port, for dns.", example=8000),
    Field("max", Integer(1, 1000), 32, "The most servers that are expected."),
    Field(
        "file",
        FILE,
        doc="A Prometheus file_sd file, JSON or YAML, read when files are rendered; relative "
        "to the fleet file. The labels __weight__ or weight and name are understood.",
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
        "What the servers run. It decides the health path, the idle time of connections, and metric names.",
        example="vllm",
        instead_of=("type", "backend", "runtime"),
    ),
    Field(
        "models",
        ListOf(MODEL, single=True),
        [],
        "Names of the models that clients may ask for here; '*' stands for anything. "
        "Where routes go by model, they are what /v1/models lists.",
        example=["meta-llama/Llama-3.3-70B-Instruct", "llama-70b*"],
        instead_of=("model",),
    ),
    Field(
        "strategy",
        STRATEGY,
        {"name": DEFAULT_STRATEGY},
        "How requests are spread over the servers.",
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
    Field("queue", QUEUE, doc="Where requests wait while every server is at its cap."),
    Field(
        "health",
        OneOf(scalar=Choice("tcp"), mapping=HEALTH, off=True),
        doc="Active checks (HAProxy). tcp: only whether a connection opens. false: none.",
        default_doc="the engine's path, every 5s",
        example={"path": "/health"},
        instead_of=("healthcheck", "health_check", "check", "checks"),
    ),
    Field(
        "passive_health",
        OneOf(mapping=PASSIVE_HEALTH, off=True),
        doc="Ejection by the failures of real requests. false: never.",
        default_doc="3 failures in 10s eject for 10s",
        example={"failures": 5},
    ),
    Field(
        "warmup",
        OneOf(scalar=Duration(1_000), off=True),
        doc="How long a server that comes back gets less than its share (HAProxy).",
        default_doc="none",
        example="30s",
        instead_of=("slow_start", "slowstart"),
    ),
    Field(
        "retry",
        OneOf(mapping=RETRY, off=True),
        doc="Further tries after the first. false: none.",
        default_doc="one, when a connection fails",
        example={"attempts": 2},
        instead_of=("retries",),
    ),
    Field(
        "timeouts", TIMEOUTS, doc="How long to wait.", example={"first_byte": "15m"}, instead_of=("timeout",)
    ),
    Field(
        "keepalive",
        OneOf(mapping=KEEPALIVE, off=True),
        doc="Idle connections that are kept open to the servers. false: each request opens one.",
        default_doc="64, for a second less than the engine keeps them",
        example={"idle": 128},
        instead_of=("keep_alive",),
    ),
    Field(
        "tls",
        OneOf(scalar=Boolean(), mapping=TLS),
        doc="TLS to the servers; true: with the system's authorities.",
        default_doc="false",
        example={"ca": "/etc/lb/ca.pem"},
        instead_of=("ssl", "https"),
    ),
    Field(
        "protocol",
        Choice("http", "h2c", "grpc"),
        "http",
        "What the servers speak: HTTP/1.1, HTTP/2 without TLS, gRPC.",
    ),
    Field(
        "host_header",
        Text("client, backend, or a host", limit=255, parse=host_header),
        "client",
        "The Host header that servers see: the client's, the server's own address, or a literal.",
        example="backend",
        instead_of=("host",),
    ),
    Field(
        "header_size",
        Size(*HEADER_SIZES),
        HEADER_SIZE,
        "The longest headers of a response; longer ones are answered with 502. NGINX passes up to eight "
        "times as much, and counts what is longer as a failure of the server.",
        instead_of=("proxy_buffer_size", "max_header_size"),
    ),
    Field("headers", HEADERS, doc="Changes of the request's headers.", example={"remove": ["X-Debug"]}),
    Field(
        "response_headers",
        RESPONSE_HEADERS,
        doc="Changes of the headers of the servers' responses.",
        example={"remove": ["Server-Timing"]},
    ),
    Field(
        "request_buffering",
        Boolean(),
        doc="true: a server gets a request once all of it is there. false: while it comes, for uploads.",
        default_doc="true on NGINX, false on HAProxy",
        example=False,
        instead_of=("proxy_request_buffering", "buffer_requests"),
    ),
    Field("dns", DNS, doc="How host names of servers are looked up.", example={"mode": "runtime"}),
    Field(
        "discover",
        DISCOVER,
        doc="In place of servers: a name or a file that stands for them.",
        example={"dns": "vllm.svc.cluster.local", "port": 8000},
    ),
    Field(
        "admin",
        OneOf(
            scalar=Choice("refuse", "pass"),
            mapping=Struct(
                "who may call admin paths",
                Field(
                    "clients",
                    ListOf(CALLER, single=True, least=1),
                    doc="Clients by name, and networks.",
                    example=["ops", "10.0.0.0/24"],
                    required=True,
                ),
            ),
        ),
        doc="Who may call the paths by which an engine is run: load and unload models and adapters, sleep, "
        "empty caches. refuse: nobody, others get 403. pass: whoever may use the pool.",
        default_doc="refuse, for engines that have such paths",
        example={"clients": ["10.0.0.0/24"]},
    ),
    Field(
        "allow_empty",
        Boolean(),
        default=False,
        doc="Whether the pool may have no servers; it answers 503 then.",
    ),
    Field("standby", Boolean(), default=False, doc="No route leads here, on purpose."),
    groups=(
        Group(("servers", "discover"), least=0),
        Group(("servers", "discover", "allow_empty"), most=3),
    ),
)
