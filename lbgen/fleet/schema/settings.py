"""The fields of what is not traffic: balancers, metrics, logs, targets."""

from lbgen.fields import Choice, Field, Integer, ListOf, MapOf, OneOf, Struct, Text
from lbgen.fleet.address_kinds import NETWORK, Bind, OneAddress, log_target
from lbgen.fleet.header_kinds import LogSource
from lbgen.fleet.kinds import LOG_FIELD, Name, SecretKind
from lbgen.targets.registry import TARGETS as ALL_TARGETS

BALANCERS = OneOf(
    scalar=Integer(1, 1000),
    mapping=Struct(
        "several balancers for one fleet",
        Field(
            "count", Integer(1, 1000), doc="How many there are.", default_doc="as many as peers", example=2
        ),
        Field(
            "peers",
            MapOf(Name("a balancer's name", reserved=False), OneAddress()),
            {},
            "Addresses at which they exchange learned tables.",
            example={"lb-0": "10.0.0.1:10000"},
        ),
    ),
)

METRICS = Struct(
    "a listener for statistics, Prometheus and probes",
    Field(
        "bind",
        ListOf(Bind(), single=True, least=1),
        doc="The listening address.",
        example="127.0.0.1:8404",
        required=True,
        instead_of=("listen", "address", "port"),
    ),
    Field("allow", ListOf(NETWORK, single=True), [], "Networks that may access it.", example=["10.0.0.0/8"]),
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
        doc="The required user and password.",
        example={"user": "u", "password": "env:P"},
    ),
)

LOGS = Struct(
    "the access log",
    Field(
        "to",
        Text("stdout, stderr, an absolute path, or syslog:HOST:PORT", limit=300, parse=log_target),
        "stdout",
        "The destination.",
        example="syslog:10.0.0.5:514",
    ),
    Field("format", Choice("json", "combined"), "json", "The format of a line."),
    Field(
        "fields",
        MapOf(LOG_FIELD, LogSource()),
        {},
        "Additional fields of a JSON line: model, client_address, prompt_bytes (from the request),"
        " max_tokens, decision, a header as header:NAME, or a fixed text.",
        example={"model": "model", "app": "header:X-App", "region": "eu-1"},
    ),
    Field(
        "level",
        Choice("debug", "info", "notice", "warning", "error", aliases={"warn": "warning"}),
        "info",
        "What else to log.",
    ),
)

TARGETS = Struct(
    "the balancer programs to render configuration for",
    *(
        Field(
            name,
            target.settings.keys,
            doc=f"{target.title}, and its settings.",
            example={"version": target.settings.keys.by_name["version"].example},
        )
        for name, target in ALL_TARGETS.items()
    ),
)
