"""What the templates of NGINX see: decisions, already made, in the words of the language."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Callable

NOTHING = Syntax("")
_SHORT_ENTRIES = 2
_SHORT_BODY = 80
_SHORT = 125
"""Characters of all words of a block that stands on one line."""


class Pair(NamedTuple):
    """A header's name and value, a map's pattern and result, a variable and what it is set to."""

    name: Syntax
    value: Syntax


class Map(NamedTuple):
    """A `map` block: `entries` are tried in order where they are regular expressions."""

    source: Syntax
    variable: Syntax
    entries: tuple[Pair, ...]
    why: Syntax = NOTHING
    """A comment."""
    volatile: bool = False
    """True: what it said of a subrequest is not kept for the request."""

    @property
    def short(self) -> bool:
        """Whether the block is read best as one line."""
        words = (self.source, self.variable, *(word for pair in self.entries for word in pair))
        return len(self.entries) <= _SHORT_ENTRIES and sum(map(len, words)) <= _SHORT


class Check(NamedTuple):
    """A request is answered with `status` where the condition holds."""

    condition: Syntax
    """What stands in the parentheses of `if`."""
    status: int


class Tls(NamedTuple):
    """TLS to the servers of a pool."""

    name: Syntax
    verify: bool
    ca: Syntax
    certificate: Syntax
    key: Syntax


class Proxy(NamedTuple):
    """A request on its way to a pool."""

    words: str
    """``proxy`` or ``grpc``: the first word of the directives."""
    address: Syntax
    computed: bool
    """True: the address holds a variable."""
    http_version: Syntax
    """Empty: 1.1, which stands in the server block."""
    buffer: int
    """KiB for the header of an answer; 0: as the server block says."""
    headers: tuple[Pair, ...]
    """Empty: those of the server block."""
    hide: tuple[Syntax, ...]
    connect: Syntax
    read: Syntax
    send: Syntax
    """Empty: NGINX's own default."""
    retry_on: Syntax
    """Empty: NGINX's own default."""
    tries: int
    within: Syntax
    tls: Tls | None
    streams: bool
    """True: the body of a request goes to the server while it comes."""
    quiet: Syntax
    """How long a stream of any length may be silent; empty: it is no stream."""


class Answer(NamedTuple):
    """A fixed answer."""

    status: int
    body: Syntax = NOTHING
    """Empty: that of the error page for this status."""
    content_type: Syntax = NOTHING
    """Empty: JSON."""


class Location(NamedTuple):
    """One `location`; one of `proxy`, `answer` and `dispatch` is set."""

    match: Syntax
    why: Syntax = NOTHING
    """A comment."""
    pool: Syntax = NOTHING
    """For the log."""
    internal: bool = False
    checks: tuple[Check, ...] = ()
    access: tuple[Syntax, ...] = ()
    """Whole directives: limits, who may come."""
    headers: tuple[Pair, ...] = ()
    """Of the response."""
    errors: tuple[Syntax, ...] = ()
    """`error_page` lines of this location alone; with any, the server's are not inherited."""
    extra: tuple[Syntax, ...] = ()
    """Whole directives of the fleet's `raw`, at the end."""
    proxy: Proxy | None = None
    answer: Answer | None = None
    dispatch: Syntax = NOTHING
    """The name of the location that takes the request, with variables."""
    reads: bool = False
    """True: the body is read before `dispatch` is asked."""
    buffer: Syntax = NOTHING
    """For the body, where it differs from the server block's."""

    @property
    def short(self) -> bool:
        """Whether the block is read best as one line: it does no more than answer."""
        bare = self._replace(match=NOTHING, answer=None) == Location(NOTHING)
        return bare and self.answer is not None and len(self.answer.body) <= _SHORT_BODY


class ServerTls(NamedTuple):
    """TLS to the clients of a listener."""

    certificate: Syntax
    key: Syntax
    protocols: Syntax
    ciphers: Syntax
    client_ca: Syntax


class Shared(NamedTuple):
    """What the proxied locations of a server block inherit."""

    headers: tuple[Pair, ...]
    hide: tuple[Syntax, ...]
    buffer: int
    """KiB for the header of an answer."""


class Site(NamedTuple):
    """One `server` block."""

    listener: str
    listens: tuple[Syntax, ...]
    names: tuple[Syntax, ...]
    http2: bool
    tls: ServerTls | None
    max_body: Syntax
    buffer: Syntax
    settings: tuple[Syntax, ...]
    """Whole directives."""
    routes: tuple[Location, ...]
    probes: tuple[Location, ...]
    errors: tuple[Syntax, ...]
    """`error_page` lines."""
    answers: tuple[Location, ...]
    """What they lead to."""
    extra: tuple[Syntax, ...] = ()
    shared: Shared | None = None

    @property
    def locations(self) -> tuple[Location, ...]:
        """All of them."""
        return (*self.routes, *self.probes, *self.answers)

    def each(self, change: Callable[[Location], Location]) -> Site:
        """Return the block with all of its locations changed."""
        return self._replace(
            routes=tuple(map(change, self.routes)),
            probes=tuple(map(change, self.probes)),
            answers=tuple(map(change, self.answers)),
        )


class Main(NamedTuple):
    """What stands outside of `http`."""

    user: Syntax
    jit: bool
    """True: a body is read by a regular expression."""
    modules: tuple[Syntax, ...]
    workers: Syntax
    connections: int
    files: int
    shutdown: Syntax
    error_log: Syntax


class Script(NamedTuple):
    """What the njs file knows of a pool."""

    number: int
    name: Syntax
    """The variable that it sets."""
    way: Syntax
    """Its function: ``choose`` a home, or make a ``key`` that is hashed."""
    pool: Syntax
    """The pool as a literal of JavaScript."""


class Log(NamedTuple):
    """The access log; `combined` has no query either, which may hold keys."""

    combined: bool
    access_log: Syntax
    """Its place, for all server blocks; empty: each says it itself."""
    listener: Syntax
    client: Syntax
    pool: Syntax
    server: Syntax
    """Variables, or the one value that there can be."""
    fields: tuple[Pair, ...] = ()
    """The fleet's own: names and values."""
    decision: Syntax = NOTHING
    """The variable that says why a request went where it did, where anything does."""
    last: Syntax = NOTHING
    """A variable that prints nothing and is asked when a request is over."""
