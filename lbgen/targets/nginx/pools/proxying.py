"""How a request goes to a pool: address, headers, timeouts, tries, TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.strategies.session import session_of
from lbgen.targets.common.tls_profiles import SYSTEM_CA
from lbgen.targets.nginx.language.quoting import header_name, quote
from lbgen.targets.nginx.language.words import duration
from lbgen.targets.nginx.routes.conditions import header_variable
from lbgen.targets.nginx.routes.response_headers import hidden
from lbgen.targets.nginx.views import NOTHING, Pair, Proxy, Tls
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.model import Headers, Listener, Pool, Retry, Timeouts
    from lbgen.targets.nginx.assembly import Assembly

_CORS_NAMES = (
    "Allow-Origin", "Allow-Credentials", "Allow-Methods", "Allow-Headers", "Max-Age",
)  # fmt: skip
_DEFAULTS = ("1m", "error timeout")
"""Of `proxy_send_timeout` and `proxy_next_upstream`."""
_HEADER_ROOM = 8
_RETRY_WORDS = {"429": "http_429", "502": "http_502", "503": "http_503", "504": "http_504"}


class Manner(NamedTuple):
    """What is particular about the way of one location's requests."""

    headers: tuple[tuple[str, str], ...] = ()
    """Of the listener: names and syntax."""
    changes: tuple[Headers, ...] = ()
    """Of the route, after the pool's; later ones win."""
    timeouts: Timeouts | None = None
    path: str = ""
    """A fixed path in place of the client's."""
    uri: Syntax = NOTHING
    """A variable in place of the client's path and query. Both empty: as the client sent them."""
    upstream: Syntax = NOTHING
    hide: tuple[str, ...] = ()
    """Headers of the response that clients do not get."""
    tunnel: bool = False
    """An upgraded connection."""


def proxy(made: Assembly, pool: Pool, manner: Manner) -> Proxy:
    """Return the request's way to one pool."""
    waits = _merged(pool.timeouts, manner.timeouts)
    tunnel = manner.tunnel
    tries = _tries(pool)
    return Proxy(
        words="grpc" if pool.protocol == "grpc" else "proxy",
        address=_address(made, pool, manner),
        computed=bool(manner.uri),
        http_version=Syntax("2") if pool.protocol == "h2c" else NOTHING,
        buffer=_header_kib(pool),
        headers=_headers(made, pool, manner),
        hide=tuple(map(Syntax, manner.hide)),
        connect=duration(waits.connect or 60_000),
        send=_unless_default(made, duration((waits.tunnel if tunnel else waits.send) or 60_000)),
        read=duration((waits.tunnel if tunnel else read_timeout(waits)) or 60_000),
        retry_on=_unless_default(made, _retry_on(pool.retry)),
        tries=tries,
        within=duration(pool.retry.within or 0) if tries else NOTHING,
        tls=_tls(pool),
        streams=pool.request_buffering is False and pool.protocol != "grpc",
        # As on HAProxy: the time for bodies would end a stream on which nobody talks (seen on 1.22.1).
        quiet=duration(read_timeout(waits)) if pool.protocol == "grpc" else NOTHING,
    )


def _unless_default(made: Assembly, value: Syntax) -> Syntax:
    """Return the value, or nothing where it is what NGINX does by itself."""
    return NOTHING if made.whole and value in _DEFAULTS else value


def _header_kib(pool: Pool) -> int:
    """Return the size of the buffer for an answer's header.

    An answer whose header does not fit is 502, and counts as a failure of its server, which nothing changes
    (seen on 1.22.1 to 1.30.6): a few of them would take healthy servers out. So there is room for much more
    than is promised. Memory is taken only as far as it is filled.
    """
    return _HEADER_ROOM * -(-pool.header_size // 1024)


def read_timeout(timeouts: Timeouts) -> int:
    """Return the one number for the first byte and for gaps, since NGINX has one timer for both."""
    return max(timeouts.first_byte or 0, timeouts.idle or 0)


def _merged(base: Timeouts, over: Timeouts | None) -> Timeouts:
    if over is None:
        return base
    set_ones = {name: value for name, value in zip(over._fields, over, strict=True) if value is not None}
    return base._replace(**set_ones)


def _address(made: Assembly, pool: Pool, manner: Manner) -> Syntax:
    scheme = {"grpc": "grpc", "h2c": "http", "http": "http"}[pool.protocol]
    if pool.tls:
        scheme += "s"
    upstream = manner.upstream or made.upstreams[pool.name]
    if manner.uri:
        return Syntax(f"{scheme}://{upstream}{manner.uri}")
    return quote(f"{scheme}://{upstream}{manner.path}")


def _headers(made: Assembly, pool: Pool, manner: Manner) -> tuple[Pair, ...]:
    """Return all request headers of a location: NGINX does not merge the headers of its levels."""
    found: dict[str, Pair] = {}

    def put(name: str, value: str) -> None:
        found[name.lower()] = Pair(header_name(name), Syntax(value))

    for name, value in _standard(made, pool, tunnel=manner.tunnel).items():
        put(name, value)
    session = session_of(pool)
    if session and session.header:
        put(session.header, header_variable(session.header))  # one, where a client sends several
    for name, value in manner.headers:
        put(name, value)
    for group in (pool.headers, *manner.changes):
        for name in group.remove:
            put(name, '""')
        for name, text in group.set.items():
            put(name, made.word(text))
    return tuple(found.values())


def _standard(made: Assembly, pool: Pool, *, tunnel: bool) -> Mapping[str, str]:
    kept = pool.keepalive is not None and pool.keepalive.idle > 0
    headers = {
        "Host": seen_host(made, pool),
        "X-Real-IP": "$remote_addr",
        # Overwrite these headers: values from clients are not trusted.
        "X-Forwarded-For": "$remote_addr",
        "X-Forwarded-Proto": "$scheme",
        "X-Forwarded-Host": "$lb_host",
        "X-Request-Id": "$lb_request_id",
        # Belongs to an upgrade to h2c, which is never passed on.
        "HTTP2-Settings": '""',
    }
    if tunnel:
        return {**headers, "Upgrade": "websocket", "Connection": "upgrade"}
    if pool.protocol == "http":
        headers["Connection"] = '""' if kept else "close"
    return headers


def seen_host(made: Assembly, pool: Pool) -> str:
    """Return what servers see as `Host`."""
    if pool.host_header == "client":
        return "$lb_host"
    if pool.host_header == "backend":
        return backend_host(pool)
    return made.word(pool.host_header)


def backend_host(pool: Pool) -> Syntax:
    """Return the servers' common address for `Host`; `limits` has seen to it that there is one."""
    if pool.discover and pool.discover.dns:
        return quote(f"{pool.discover.dns}:{pool.discover.port}")
    hosts = [server.address for server in pool.servers]
    return quote(str(hosts[0] if len(set(hosts)) == 1 else hosts[0].host))


def _retry_on(retry: Retry) -> Syntax:
    if retry.attempts == 0 or not retry.on:
        return Syntax("off")
    # `error` and `timeout` cover the connection; once a POST was sent they do nothing for it, unless
    # non_idempotent is there too (seen on 1.22.1 to 1.30.6).
    words = ["error", "timeout", *(_RETRY_WORDS[reason] for reason in retry.on if reason in _RETRY_WORDS)]
    if _replays(retry):
        words.append("non_idempotent")
    return Syntax(" ".join(words))


def retries_statuses(retry: Retry) -> bool:
    """Tell whether some answers of servers are tried again: NGINX counts each of them as a failure."""
    return bool(retry.attempts) and any(reason in _RETRY_WORDS for reason in retry.on)


def _tries(pool: Pool) -> int:
    """Return how many servers a request may be sent to.

    With backups, all primaries and one of them: a request walks on while connections are refused. Only where
    a sent request is never sent again, which is what `non_idempotent` would do.
    """
    retry = pool.retry
    if not retry.attempts or not retry.on:
        return 0
    backups = sum(server.backup for server in pool.servers)
    if backups and not _replays(retry):
        return max(retry.attempts, len(pool.servers) - backups) + 1
    return retry.attempts + 1


def _replays(retry: Retry) -> bool:
    return retry.replay_posts and set(retry.on) != {"connect"}


def _tls(pool: Pool) -> Tls | None:
    if pool.tls is None:
        return None
    client = pool.tls.certificate
    return Tls(
        name=quote(pool.tls.server_name or sni(pool)),
        verify=pool.tls.verify,
        ca=quote(pool.tls.ca or SYSTEM_CA),
        certificate=quote(client) if client else NOTHING,
        key=quote(pool.tls.key or client) if client else NOTHING,
    )


def sni(pool: Pool) -> str:
    """Return the servers' common host name; `limits` has seen to it that there is one."""
    if pool.discover and pool.discover.dns:
        return pool.discover.dns
    return pool.servers[0].address.host


def standard_hide(listener: Listener) -> tuple[str, ...]:
    """Return the headers of servers that the balancer sends itself, so that there are not two."""
    names = ["X-Request-Id"]
    if listener.cors.origins:
        names += [f"Access-Control-{name}" for name in _CORS_NAMES]
    return (*names, *hidden(listener.response_headers))
