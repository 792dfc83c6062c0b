"""The fleet as understood: the central type, complete, with every default filled in.

Immutable named tuples: a dataclass costs 0.75 ms of start-up each where a named
tuple costs 0.08 (measured on Python 3.11), and every command pays for all of them.
Annotations are not postponed here for the same reason: each string would be compiled.
Durations are milliseconds, sizes are bytes. `path` says where a thing stands in
the file, so that a problem found later can point there.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from lbgen.problems import Path
from lbgen.units import Address, Rate
from lbgen.vocabulary import Origins, Version


class State(StrEnum):
    """Whether a server takes requests."""

    UP = "up"
    DRAIN = "drain"
    """No new requests; those in flight (and bound sessions, where the target can) finish."""
    DOWN = "down"


class Secret(NamedTuple):
    """Where a secret is kept: never the secret itself."""

    kind: str
    """``env`` or ``file``."""
    reference: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.reference}"


HeaderValue = str | Secret


class Headers(NamedTuple):
    """Headers that are set and removed: of a request on its way to the server, or of a response."""

    set: Mapping[str, HeaderValue] = {}
    remove: tuple[str, ...] = ()


class Timeouts(NamedTuple):
    """How long to wait, in milliseconds. None in a route: the pool's value."""

    connect: int | None = None
    first_byte: int | None = None
    """From the request's last byte to the response's first."""
    idle: int | None = None
    """Between two pieces of a response."""
    send: int | None = None
    """Between two pieces of a request."""
    tunnel: int | None = None
    """Silence on an upgraded connection (WebSocket)."""


class Server(NamedTuple):
    """One inference server."""

    address: Address
    name: str
    weight: int
    max_in_flight: int | None
    state: State
    backup: bool
    path: Path


class StrategyChoice(NamedTuple):
    """A strategy by its canonical name, with its parameters, defaults filled in."""

    name: str
    parameters: Mapping[str, object] = {}


class Queue(NamedTuple):
    """The queue while every server is at max_in_flight."""

    size: int
    timeout: int
    order: str
    """``fifo`` or ``shortest_first``."""


class Health(NamedTuple):
    """An active check. `path` None: only that a TCP connection opens."""

    path: str | None
    interval: int
    timeout: int
    rise: int
    fall: int
    expect: int
    port: int | None
    headers: Mapping[str, HeaderValue] = {}


class PassiveHealth(NamedTuple):
    """Ejection of a server by the failures of real requests. `failures` 0: never."""

    failures: int
    window: int
    eject: int


class Retry(NamedTuple):
    """Further tries after the first."""

    attempts: int
    on: tuple[str, ...]
    within: int | None
    replay_posts: bool

    @property
    def repeats(self) -> bool:
        """True: something is tried again after the request has reached a server."""
        return bool(self.attempts) and any(reason != "connect" for reason in self.on)


class Keepalive(NamedTuple):
    """Idle connections that are kept open to the servers."""

    idle: int
    idle_timeout: int
    requests: int


class ServerTls(NamedTuple):
    """TLS from the balancer to the servers."""

    ca: str | None
    server_name: str | None
    verify: bool
    certificate: str | None
    key: str | None


class Dns(NamedTuple):
    """How host names of servers are looked up: once (static) or again and again (runtime)."""

    mode: str
    resolver: tuple[str, ...]
    valid: int


class Discovery(NamedTuple):
    """Servers that a name or a file stands for, instead of a list."""

    dns: str | None
    port: int | None
    max: int
    file: str | None


class Admin(NamedTuple):
    """Who may call the admin paths of a pool's engine: everybody (`open`), or these clients and networks."""

    open: bool = False
    clients: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()


class Pool(NamedTuple):
    """Servers that can answer the same requests, and how requests are spread over them."""

    name: str
    engine: str
    models: tuple[str, ...]
    strategy: StrategyChoice
    servers: tuple[Server, ...]
    max_in_flight: int | None
    queue: Queue
    health: Health | None
    passive_health: PassiveHealth
    warmup: int | None
    retry: Retry
    timeouts: Timeouts
    keepalive: Keepalive | None
    tls: ServerTls | None
    protocol: str
    host_header: str
    header_size: int
    """The longest headers of a response, in bytes."""
    headers: Headers
    response_headers: Headers
    request_buffering: bool | None
    """None: as the target does by itself."""
    dns: Dns
    discover: Discovery | None
    admin: Admin
    allow_empty: bool
    standby: bool
    path: Path

    def cap(self, server: Server) -> int | None:
        """Return the most requests in flight that a server of this pool takes."""
        return self.max_in_flight if server.max_in_flight is None else server.max_in_flight

    @property
    def capped(self) -> bool:
        """True: a server has a limit on its requests in flight."""
        return self.max_in_flight is not None or any(one.max_in_flight is not None for one in self.servers)

    @property
    def has_servers(self) -> bool:
        """True: there is something that could serve, if only a name that is looked up."""
        return bool(self.servers) or bool(self.discover and self.discover.dns)


class ListenerTls(NamedTuple):
    """TLS from the clients to the balancer."""

    certificate: str | None
    key: str | None
    bundle: str | None
    directory: str | None
    profile: str
    hsts: bool
    client_ca: str | None


class ExternalAuth(NamedTuple):
    """An HTTP service that is asked whether a request may pass."""

    url: str
    forward: tuple[str, ...]


class Auth(NamedTuple):
    """Who may call. No clients and no external service: everybody."""

    clients: tuple[str, ...]
    header: str
    upstream: str | Secret
    """What the server sees of the client's key: ``strip``, ``pass``, or a secret in its place."""
    external: ExternalAuth | None
    except_from: tuple[str, ...]
    required: bool
    """False for ``auth: none``, written or by default."""
    websocket_protocol: str | None = None
    """The subprotocol behind which, with a dot, browsers put the key of a WebSocket."""


class Limit(NamedTuple):
    """A bound on requests. One of `rate` and `concurrent` or both are set."""

    rate: Rate | None
    burst: int
    concurrent: int | None
    per: str
    """``client``, ``ip`` or ``total``."""
    path: Path


class Acme(NamedTuple):
    """Where ACME challenges go: a pool or a directory."""

    pool: str | None
    webroot: str | None


class Cors(NamedTuple):
    """What web pages of other origins may do. No `origins`: nothing is said of it."""

    origins: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    """Empty: whatever is asked for."""
    expose: tuple[str, ...] = ()
    credentials: bool = False
    max_age: int = 0
    """Milliseconds."""


class ClientTimeouts(NamedTuple):
    """How long to wait for clients, in milliseconds."""

    keepalive: int
    """Of a connection without a request."""
    header: int
    """For all headers of a request."""
    body: int
    """Between two pieces of a request's body."""


class Status(NamedTuple):
    """The balancer's own probes."""

    live: str | None
    ready: str | None
    when: str
    """``any_pool`` or ``all_pools``."""


class Respond(NamedTuple):
    """A fixed answer."""

    status: int
    body: str
    content_type: str
    instead: Mapping[str, tuple[str, ...]] = {}
    """Other bodies, each with the names of the clients that get it."""


class Match(NamedTuple):
    """The conditions of a route; all that are set have to hold."""

    hosts: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    path_model: bool = False
    """The segment after each of `paths` is the model: written ``/{model}``."""
    paths_exact: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    """Parameters of the query and globs for their values."""
    form: Mapping[str, str] = {}
    """Fields of a form and globs for their values."""
    models: tuple[str, ...] = ()
    prompt_over: int | None = None
    prompt_under: int | None = None
    max_tokens_over: int | None = None
    websocket: bool | None = None

    @property
    def reads_text(self) -> bool:
        """True: the text of a request's body decides, not only its length."""
        return bool(self.models) or bool(self.form) or self.max_tokens_over is not None

    @property
    def reads_body(self) -> bool:
        """True: the body has to be there before the route can be told."""
        return self.reads_text or self.prompt_over is not None or self.prompt_under is not None

    @property
    def conditions(self) -> int:
        """How many conditions there are beside the path: of routes with equal paths, more go first."""
        single = (
            self.hosts,
            self.methods,
            self.models,
            self.prompt_over is not None,
            self.prompt_under is not None,
            self.max_tokens_over is not None,
            self.websocket is not None,
        )
        return sum(map(bool, single)) + len(self.headers) + len(self.query) + len(self.form)


class Route(NamedTuple):
    """Which requests go where. Exactly one of `pool`, `split` and `respond` is set."""

    name: str
    match: Match
    pool: str | None = None
    split: Mapping[str, int] = {}
    split_by: str = "request"
    """``request``, ``client``, or ``header:NAME``."""
    when_down: str | None = None
    respond: Respond | None = None
    strip_prefix: bool = False
    add_prefix: str = ""
    priority: int | None = None
    timeouts: Timeouts = Timeouts()
    headers: Headers = Headers()
    response_headers: Headers = Headers()
    path: Path = ()

    @property
    def pools(self) -> tuple[str, ...]:
        """The names of all pools that this route can send to."""
        named = (self.pool,) if self.pool else tuple(self.split)
        return (*named, self.when_down) if self.when_down else named

    @property
    def derived(self) -> bool:
        """Whether it is an answer that follows from the fleet, such as the list of its models."""
        return self.respond is not None and not isinstance(self.path[-1], int)


class Listener(NamedTuple):
    """One address that clients call, and what happens to their requests."""

    name: str
    binds: tuple[Address, ...]
    """Host ``*``: every address, IPv4 and IPv6."""
    hosts: tuple[str, ...]
    tls: ListenerTls | None
    redirect_from: tuple[Address, ...]
    acme: Acme | None
    http2: bool
    max_body: int
    header_size: int
    """The longest headers of a request, in bytes with their line."""
    inspect_body: int
    timeouts: ClientTimeouts
    behind_proxy: bool
    explain: bool
    """Answers say why they came from their server."""
    trusted_proxies: tuple[str, ...]
    accept_proxy: bool
    """The PROXY protocol is expected from whoever connects."""
    allow: tuple[str, ...]
    """Networks that may send requests; empty: all."""
    deny: tuple[str, ...]
    auth: Auth
    limits: tuple[Limit, ...]
    cors: Cors
    response_headers: Headers
    websocket: bool
    routes: tuple[Route, ...]
    status: Status
    path: Path

    @property
    def pools(self) -> tuple[str, ...]:
        """The names of the pools that its routes lead to, each once."""
        return tuple(dict.fromkeys(name for route in self.routes for name in route.pools))

    def tunnels(self, route: Route) -> bool:
        """Tell whether WebSocket handshakes that take this route are passed on."""
        return route.match.websocket is not False and (self.websocket or bool(route.match.websocket))


class Client(NamedTuple):
    """Who may call, and how much."""

    name: str
    keys: tuple[Secret, ...]
    priority: int
    rate: Rate | None
    burst: int
    max_in_flight: int | None
    pools: tuple[str, ...]
    """Empty: all pools."""
    path: Path


class Metrics(NamedTuple):
    """The listener for statistics, Prometheus and probes."""

    binds: tuple[Address, ...]
    allow: tuple[str, ...]
    user: str | None
    password: Secret | None
    path: Path


LOG_FIELDS = (
    "time", "request_id", "client", "method", "path", "listener", "pool", "server", "decision", "status",
    "bytes_sent", "duration_s", "upstream_connect_s", "upstream_first_byte_s", "upstream_total_s", "retries",
)  # fmt: skip
"""What each JSON line of the access log holds, on every target."""
LOG_SOURCES = ("model", "client_address", "prompt_bytes", "max_tokens", "decision")
"""What fields of the access log can hold, beside headers and fixed texts."""


class Logs(NamedTuple):
    """The access log."""

    to: str
    format: str
    level: str
    fields: Mapping[str, str] = {}
    """Fields of one's own: a source (`LOG_SOURCES`), ``header:NAME``, or a fixed text."""

    def asks(self, *sources: str) -> bool:
        """Tell whether a field has one of these sources."""
        return any(source in sources for source in self.fields.values())


class Balancers(NamedTuple):
    """Balancer instances side by side; `peers` maps their names to peer addresses."""

    instances: int
    peers: Mapping[str, Address]
    own: str | None = None
    """Which of the peers the files are rendered for (``--balancer``)."""


class TargetSettings(NamedTuple):
    """What the fleet says about one target; None: left to the target."""

    name: str
    version: Version
    directory: str
    user: str | None = None
    runtime_socket: str | None = None
    """Where its servers can be changed while it runs; None: it has no such socket, or none is written."""
    drain_timeout: int = 900_000
    without: tuple[str, ...] = ()
    raw: Mapping[str, tuple[str, ...]] = {}
    path: Path = ()
    own: Any = None
    """The named tuple of what only this target has."""

    @property
    def values(self) -> dict[str, Any]:
        """Every value by its key: those that targets share, and its own."""
        return {**self._asdict(), **self.own._asdict()}


class Fleet(NamedTuple):
    """Everything that the fleet file says."""

    name: str
    balancers: Balancers
    pools: tuple[Pool, ...]
    listeners: tuple[Listener, ...]
    clients: tuple[Client, ...]
    metrics: Metrics | None
    logs: Logs
    targets: tuple[TargetSettings, ...]
    """One for each target that the file names, or for all when it names none."""
    digest: str
    """Twelve hexadecimal digits of the sha256 of the merged fleet."""
    origins: Origins

    def pool(self, name: str) -> Pool:
        """Return the pool of this name; raises `KeyError`."""
        for pool in self.pools:
            if pool.name == name:
                return pool
        raise KeyError(name)

    def pools_of(self, listener: Listener) -> tuple[Pool, ...]:
        """Return the pools that a listener's routes lead to, each once."""
        return tuple(map(self.pool, listener.pools))

    def target(self, name: str) -> TargetSettings:
        """Return the settings of this target; raises `KeyError`."""
        for target in self.targets:
            if target.name == name:
                return target
        raise KeyError(name)
