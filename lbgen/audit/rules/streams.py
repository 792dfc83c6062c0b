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
                f"proxy_buffering {how}: NGINX collects an answer before it passes it on, so that the"
                " client sees no token until 4 to 16 KB are together, and with HTTP/1.0 to the server none"
                " before the end",
                "proxy_buffering off;",
            )


def _waiting_for_the_answer(view: HaproxyView) -> Iterator[Finding]:
    for section in (*view.fronts, *(pool.section for pool in view.pools)):
        for line in section.own("http-response", "wait-for-body"):
            yield Finding(
                line.location,
                "'http-response wait-for-body' holds an answer back until its buffer is full or its time"
                " is over: the client sees no token before that",
                "no such line for streams",
            )


BUFFERING = AuditRule(
    "buffered-streams",
    Severity.ERROR,
    "answers are collected before they are passed on",
    "Time to first token becomes the time of the whole answer: behind a file without `proxy_buffering off`"
    " mock GPU servers gave the median first token after 0.60 s in place of 0.04 s (NGINX 1.22.1).",
    "it has 'proxy_buffering off' wherever requests go to servers",
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
                "every request to the server says 'Connection: upgrade', not only those of WebSockets: no"
                " connection is kept for the next request, and some servers refuse it",
                'map $http_upgrade $connection_upgrade { default ""; ~*^websocket$ upgrade; } and'
                " proxy_set_header Connection $connection_upgrade;",
            )
        elif value == "close":
            yield Finding(
                connection.location if connection else one.directive.location,
                "'Connection: close' to the server: each request pays for a new connection, and with TLS"
                " for a handshake, before its first token",
                'proxy_set_header Connection "";',
            )
        elif (version is None and not modern) or (version is not None and version.value == "1.0"):
            yield Finding(
                (version or one.directive).location,
                "requests go to the server as HTTP/1.0 (NGINX's default before 1.29.7): the answer ends"
                " with its connection, none is kept for the next request, and the server cannot stream in"
                " chunks",
                'proxy_http_version 1.1; and proxy_set_header Connection "";',
            )
        elif value is None and not modern and (outer := one.lost_header("connection")):
            yield Finding(
                one.level.all("proxy_set_header")[0].location,
                f"the Connection of line {outer.location.line} does not hold here, where headers are set:"
                " NGINX inherits all of 'proxy_set_header' or nothing, and before 1.29.7 adds 'Connection:"
                " close', so that each request pays for a new connection",
                f'proxy_set_header Connection "{outer.args[-1]}"; here as well',
            )
        elif value is None and not modern:
            yield Finding(
                (version or one.directive).location,
                "HTTP/1.1 to the server, but NGINX before 1.29.7 adds 'Connection: close' to each request"
                " unless the header is emptied: 'keepalive' has no effect, each request pays for a new"
                " connection",
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
                f"'{upstream.name}' keeps no connections to its servers (no 'keepalive', and none by"
                " default before"
                " 1.29.7): each request pays for a new one before its first token",
                "keepalive 64; and keepalive_timeout 4s; behind the balancing method",
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
                    f"'option {name}' closes the connection to the server behind each answer: each request"
                    " pays for a new one before its first token",
                    "http-reuse safe, without this option",
                )


CONNECTION = AuditRule(
    "connection-closed",
    Severity.WARNING,
    "each request to a server opens a connection of its own",
    "HTTP/1.0, or `Connection: close`, ends the connection with the answer. NGINX sends both by default"
    " before 1.29.7; `Connection: upgrade` for every request has the same effect.",
    "it speaks HTTP/1.1, empties the header and keeps connections",
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
                f"without 'option http-no-delay' HAProxy holds each chunk of '{pool.name}' back for up to"
                " 200 ms, waiting for more: clients over HTTP/1 get tokens in bursts",
                "option http-no-delay (in defaults)",
            )


NO_DELAY = AuditRule(
    "delayed-tokens",
    Severity.WARNING,
    "HAProxy waits for more before it sends a token",
    "The first token came 200 to 223 ms late, 50 tokens of 30 ms each in 8 pieces (HAProxy 2.6 to 3.4,"
    " clients over HTTP/1); with the option at once, in 51. The manual advises against it for ordinary"
    " traffic.",
    "it has 'option http-no-delay' in its defaults",
    haproxy=_no_delay,
)


def _ignored_aborts(view: NginxView) -> Iterator[Finding]:
    for one in view.passes:
        said = one.level.first("proxy_ignore_client_abort")
        if said is not None and said.value == "on":
            yield Finding(
                said.location,
                "when a client leaves, its generation runs on to the end and takes a place in the GPU's"
                " batch",
                "no such line: NGINX then ends the request to the server at once",
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
                f"a client of '{pool.name}' that leaves before the first token is not noticed up to HAProxy"
                " 3.2: its prompt is computed to the end, and if it waits in the queue, it is still sent"
                " to a GPU",
                "option abortonclose (in defaults)",
            )
        elif line in pool.section.lines and pool.section.kind == "backend" and _only_here(view, pool.fronts):
            yield Finding(
                line.location,
                "'option abortonclose' in a backend alone has no effect (seen on HAProxy 2.6): abandoned"
                " prompts are computed to the end",
                "the same line in defaults",
            )


def _only_here(view: HaproxyView, fronts: tuple[object, ...]) -> bool:
    old = view.version is None or view.version < Version(3, 0)
    return old and bool(fronts) and not any(front.option("abortonclose") for front in view.fronts)


ABANDONED = AuditRule(
    "abandoned-generations",
    Severity.WARNING,
    "requests whose client has gone are computed to the end",
    "A long prompt costs seconds of a GPU before its first token, and clients retry: without it every"
    " retry runs beside what it replaces. With `option abortonclose` the server hears of it within 50 ms"
    " (HAProxy 2.6 to 3.2; on by default from 3.3).",
    "it has 'option abortonclose' in its defaults for HAProxy; NGINX passes a client's leaving on by default",
    _ignored_aborts,
    _abandoned,
)

RULES = (BUFFERING, CONNECTION, NO_DELAY, ABANDONED)
