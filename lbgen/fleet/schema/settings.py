"""The fields of what is not traffic: balancers, metrics, logs, targets."""

from lbgen.fields import Choice, Duration, Field, Integer, ListOf, MapOf, OneOf, Struct, Text
from lbgen.fleet.address_kinds import NETWORK, Bind, OneAddress, log_target
from lbgen.fleet.kinds import ABSOLUTE, LINE, AutoInteger, Name, SecretKind, VersionKind
from lbgen.fleet.schema.common import HOUR, MINUTE
from lbgen.vocabulary import Version

BALANCERS = OneOf(
    scalar=Integer(1, 1000),
    mapping=Struct(
        "balancers side by side",
        Field(
            "count", Integer(1, 1000), doc="How many there are.", default_doc="as many as peers", example=2
        ),
        Field(
            "peers",
            MapOf(Name("a balancer's name", reserved=False), OneAddress()),
            {},
            "Where they reach each other to share learned tables.",
            example={"lb-0": "10.0.0.1:10000"},
        ),
    ),
)

METRICS = Struct(
    "a listener for statistics, Prometheus and probes",
    Field(
        "bind",
        ListOf(Bind(), single=True, least=1),
        doc="Where it listens.",
        example="127.0.0.1:8404",
        required=True,
        instead_of=("listen", "address", "port"),
    ),
    Field("allow", ListOf(NETWORK, single=True), [], "Who may ask.", example=["10.0.0.0/8"]),
    Field(
        "auth",
        Struct(
            "user and password",
            Field(
                "user",
                Text("a user's name", pattern=r"[A-Za-z0-9._-]{1,64}"),
                doc="The user.",
                required=True,
                example="prometheus",
            ),
            Field(
                "password",
                SecretKind(),
                doc="A reference to the password.",
                required=True,
                example="env:METRICS_PASSWORD",
            ),
        ),
        doc="The user and password that are asked for.",
        example={"user": "u", "password": "env:P"},
    ),
)

LOGS = Struct(
    "the access log",
    Field(
        "to",
        Text("stdout, stderr, an absolute path, or syslog:HOST:PORT", limit=300, parse=log_target),
        "stdout",
        "Where it goes.",
        example="syslog:10.0.0.5:514",
    ),
    Field("format", Choice("json", "combined"), "json", "How a line looks."),
    Field(
        "level",
        Choice("debug", "info", "notice", "warning", "error", aliases={"warn": "warning"}),
        "info",
        "What else is logged.",
    ),
)

_DRAIN_DOC = "How long requests may finish after a reload before they are cut off."
_WITHOUT = Field(
    "without",
    ListOf(
        Text("a key of the fleet file such as health or queue.order", pattern=r"[a-z0-9_.*-]{1,100}"),
        single=True,
    ),
    [],
    "Keys that this target cannot do, and that one accepts to be without.",
    example=["health", "warmup"],
)


def _raw(*sections: str) -> Field:
    fields = (
        Field(section, ListOf(LINE, single=True), [], f"Lines for the {section} level.")
        for section in sections
    )
    doc = "Lines in the target's own language, put in as they are: you are on your own with them."
    return Field("raw", Struct("lines as they are", *fields), doc=doc, example={sections[0]: ["..."]})


_USER = Text("a user's name", pattern=r"[a-z_][a-z0-9_-]{0,31}")

NGINX = Struct(
    "settings of NGINX",
    Field(
        "version",
        VersionKind(),
        Version(1, 22),
        "The version that is rendered for; the default is the oldest supported.",
        example="1.26",
    ),
    Field("directory", ABSOLUTE, "/etc/nginx", "Where the files will live."),
    Field(
        "workers",
        AutoInteger(1, 1024),
        doc="Worker processes.",
        default_doc="auto, one a core",
        example=4,
        instead_of=("worker_processes",),
    ),
    Field(
        "connections",
        Integer(64, 1_000_000),
        8192,
        "Connections a worker may have, to clients and servers together.",
        instead_of=("worker_connections",),
    ),
    Field("user", _USER, doc="The user of the workers.", default_doc="left to the program", example="nginx"),
    Field(
        "modules",
        ListOf(Text("a module's name", pattern=r"[A-Za-z0-9_./-]{1,200}"), single=True),
        [],
        "Modules that may be used, such as njs.",
        example=["njs"],
    ),
    Field("drain_timeout", Duration(1_000, 24 * HOUR), 15 * MINUTE, _DRAIN_DOC),
    _WITHOUT,
    _raw("http", "server", "location"),
)

HAPROXY = Struct(
    "settings of HAProxy",
    Field(
        "version",
        VersionKind(),
        Version(2, 6),
        "The version that is rendered for; the default is the oldest supported.",
        example="3.0",
    ),
    Field("directory", ABSOLUTE, "/etc/haproxy", "Where the files will live."),
    Field(
        "threads",
        AutoInteger(1, 64),
        doc="Threads; HAProxy has at most 64 in one group (2.6 to 3.0).",
        default_doc="auto, one a core",
        example=4,
        instead_of=("nbthread",),
    ),
    Field(
        "max_connections",
        Integer(100, 2_000_000),
        20_000,
        "Connections of clients, all together.",
        instead_of=("maxconn",),
    ),
    Field(
        "user", _USER, doc="The user that it runs as.", default_doc="left to the program", example="haproxy"
    ),
    Field(
        "runtime_socket",
        ABSOLUTE,
        doc="The socket for drain, status and plan.",
        default_doc="none",
        example="/run/haproxy/admin.sock",
        instead_of=("stats_socket", "socket"),
    ),
    Field("drain_timeout", Duration(1_000, 24 * HOUR), 15 * MINUTE, _DRAIN_DOC),
    _WITHOUT,
    _raw("global", "defaults", "frontend", "backend"),
)

TARGET_STRUCTS = {"nginx": NGINX, "haproxy": HAPROXY}
"""By the names of the targets' registry; a test holds the two together."""

TARGETS = Struct(
    "what is rendered for, and its settings",
    Field("nginx", NGINX, doc="NGINX, and its settings.", example={"version": "1.26"}),
    Field("haproxy", HAPROXY, doc="HAProxy, and its settings.", example={"version": "3.0"}),
)
