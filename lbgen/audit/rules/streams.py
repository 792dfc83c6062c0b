"""Tokens that arrive late, and what is sent to servers again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.audit.rule import AuditRule, Finding
from lbgen.problems import Severity
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.audit.haproxy_view import HaproxyView, Pool
    from lbgen.audit.nginx_view import NginxView, Pass

_RIGHT_BY_DEFAULT = Version(1, 29, 7)
_ABORTS_BY_DEFAULT = Version(3, 3)


def _buffering(view: NginxView) -> Iterator[Finding]:
    for one in view.passes:
        said = one.level.first("proxy_buffering")
        if one.answers_at_once:
            continue
        if said is None or said.value != "off":
            how = "is on by default" if said is None else "is on"
            yield Finding(
                (said or one.directive).location,
                f"proxy_buffering {how}: NGINX buffers the response: the client receives no token until 4"
                " to 16 KB have arrived, or, with HTTP/1.0 to the server, until the response is complete",
                "proxy_buffering off;",
            )


def _waiting_for_the_answer(view: HaproxyView) -> Iterator[Finding]:
    for section in (*view.fronts, *(pool.section for pool in view.pools)):
        for line in section.own("http-response", "wait-for-body"):
            yield Finding(
                line.location,
                "'http-response wait-for-body' holds the response back until its buffer is full or its"
                " time limit expires: the client receives no token before that",
                "remove this line for streams",
            )


BUFFERING = AuditRule(
    "buffered-streams",
    Severity.ERROR,
    "responses are buffered instead of streamed",
    "The time to first token becomes the time of the whole response: without `proxy_buffering off` the"
    " median first token of mock GPU servers took 0.60 s instead of 0.04 s (NGINX 1.22.1).",
    "sets 'proxy_buffering off' wherever requests go to servers",
    _buffering,
    _waiting_for_the_answer,
)


def _connection(view: NginxView) -> Iterator[Finding]:
    modern = view.version is not None and view.version >= _RIGHT_BY_DEFAULT
    for one in () if view.generated else view.passes:  # 'keepalive: false' is written on purpose
        version, connection = one.level.first("proxy_http_version"), one.header("connection")
        value = connection.args[-1].lower() if connection and len(connection.args) > 1 else None
        if value == "upgrade":
            yield Finding(
                connection.location if connection else one.directive.location,
                "'Connection: upgrade' is sent with every request to the server, not only for"
                " WebSockets: connections are not reused, and some servers refuse such requests",
                'map $http_upgrade $connection_upgrade { default ""; ~*^websocket$ upgrade; } and'
                " proxy_set_header Connection $connection_upgrade;",
            )
        elif value == "close":
            yield Finding(
                connection.location if connection else one.directive.location,
                "'Connection: close' is sent to the server: each request opens a new connection, with a"
                " TLS handshake if it uses TLS, before its first token",
                'proxy_set_header Connection "";',
            )
        elif (version is None and not modern) or (version is not None and version.value == "1.0"):
            yield Finding(
                (version or one.directive).location,
                "requests go to the server as HTTP/1.0 (NGINX's default before 1.29.7): the connection"
                " closes after each response, is never reused, and the server cannot stream in chunks",
                'proxy_http_version 1.1; and proxy_set_header Connection "";',
            )
        elif value is None and not modern and (outer := one.lost_header("connection")):
            yield Finding(
                one.level.all("proxy_set_header")[0].location,
                f"the Connection header of line {outer.location.line} is not inherited here, because this"
                " level sets headers of its own: before 1.29.7 NGINX then sends 'Connection: close', and"
                " each request opens a new connection",
                f'proxy_set_header Connection "{outer.args[-1]}"; here as well',
            )
        elif value is None and not modern:
            yield Finding(
                (version or one.directive).location,
                "requests go to the server as HTTP/1.1, but before 1.29.7 NGINX sends 'Connection:"
                " close' unless the header is set to an empty value: 'keepalive' has no effect, and each"
                " request opens a new connection",
                'proxy_set_header Connection "";',
            )
        elif not modern:
            yield from _kept(one)


def _kept(one: Pass) -> Iterator[Finding]:
    """Find upstreams that keep no connection although the request would let them."""
    for upstream in one.upstreams:
        said = upstream.directive.inside("keepalive")
        if not said or said[-1].value == "0":
            yield Finding(
                (said[-1] if said else upstream.directive).location,
                f"'{upstream.name}' has no 'keepalive', and NGINX before 1.29.7 has no default for it:"
                " each request opens a new connection before its first token",
                "keepalive 64; and keepalive_timeout 4s; after the balancing method",
            )


def _closing(view: HaproxyView) -> Iterator[Finding]:
    for pool in () if view.generated else view.pools:
        for name in ("http-server-close", "httpclose"):
            line = pool.section.option(name) or next(
                (one for f in pool.fronts if (one := f.option(name))), None
            )
            if line:
                yield Finding(
                    line.location,
                    f"'option {name}' closes the connection to the server after each response: each"
                    " request opens a new connection before its first token",
                    "http-reuse safe, without this option",
                )


CONNECTION = AuditRule(
    "connection-closed",
    Severity.WARNING,
    "each request opens a new connection to the server",
    "HTTP/1.0 and `Connection: close` end the connection after the response. NGINX before 1.29.7 sends"
    " both by default. `Connection: upgrade` on every request has the same effect.",
    "uses HTTP/1.1, sets the Connection header to an empty value and reuses connections",
    _connection,
    _closing,
)


def _is_written_tcp(pool: Pool) -> bool:
    """Tell whether somebody chose to pass connections on: what is HTTP's has no effect there."""
    return pool.is_tcp and pool.section.last("mode") is not None


def _no_delay(view: HaproxyView) -> Iterator[Finding]:
    for pool in () if view.is_fragment else view.pools:
        if (
            not _is_written_tcp(pool)
            and pool.section.option("http-no-delay") is None
            and not any(f.option("http-no-delay") for f in pool.fronts)
        ):
            yield Finding(
                pool.section.location,
                f"without 'option http-no-delay' HAProxy delays each chunk of '{pool.name}' by up to 200"
                " ms to send more at once: HTTP/1 clients receive tokens in bursts",
                "option http-no-delay (in defaults)",
            )


NO_DELAY = AuditRule(
    "delayed-tokens",
    Severity.WARNING,
    "HAProxy delays tokens to send more at once",
    "The first token was 200 to 223 ms late, and 50 tokens at 30 ms each arrived in 8 pieces (HAProxy"
    " 2.6 to 3.4, HTTP/1 clients). With the option there was no delay, and they arrived in 51 pieces."
    " HAProxy's manual advises against the option for ordinary traffic.",
    "sets 'option http-no-delay' in defaults",
    haproxy=_no_delay,
)


def _ignored_aborts(view: NginxView) -> Iterator[Finding]:
    for one in view.passes:
        said = one.level.first("proxy_ignore_client_abort")
        if said is not None and said.value == "on":
            yield Finding(
                said.location,
                "when a client disconnects, the server generates its response to the end, which takes a"
                " slot on the GPU",
                "remove this line: NGINX then closes the request to the server at once",
            )


def _abandoned(view: HaproxyView) -> Iterator[Finding]:
    if view.is_fragment or (view.version is not None and view.version >= _ABORTS_BY_DEFAULT):
        return
    for pool in view.pools:
        line = pool.section.option("abortonclose")
        if _is_written_tcp(pool):
            continue
        if line is None:
            yield Finding(
                pool.section.location,
                f"up to HAProxy 3.2, '{pool.name}' does not notice a client that disconnects before the"
                " first token: its response is generated to the end, and a queued request is still sent to a"
                " GPU",
                "option abortonclose (in defaults)",
            )
        elif line in pool.section.lines and pool.section.kind == "backend" and _only_here(view, pool.fronts):
            yield Finding(
                line.location,
                "'option abortonclose' only in a backend has no effect (tested on HAProxy 2.6):"
                " responses to disconnected clients are generated to the end",
                "the same line in defaults",
            )


def _only_here(view: HaproxyView, fronts: tuple[object, ...]) -> bool:
    old = view.version is None or view.version < Version(3, 0)
    return old and bool(fronts) and not any(front.option("abortonclose") for front in view.fronts)


ABANDONED = AuditRule(
    "abandoned-generations",
    Severity.WARNING,
    "responses to disconnected clients are generated to the end",
    "A long prompt takes seconds of GPU time before its first token, and clients retry: the retry then"
    " runs beside the request that it replaces. With `option abortonclose` the server is told within 50 ms"
    " (HAProxy 2.6 to 3.2; on by default since 3.3).",
    "sets 'option abortonclose' in defaults (HAProxy); NGINX closes the request to the server by default",
    _ignored_aborts,
    _abandoned,
)

RULES = (BUFFERING, CONNECTION, NO_DELAY, ABANDONED)
