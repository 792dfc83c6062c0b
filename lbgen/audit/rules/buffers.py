"""Prompts, headers and windows that have to fit somewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.audit.rule import AuditRule, Finding
from lbgen.audit.values import size
from lbgen.problems import Severity
from lbgen.units import format_size
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.audit.haproxy_view import HaproxyView
    from lbgen.audit.nginx_view import NginxView

_KIB = 1024
_MIB = 1024**2
_BODY = 8 * _MIB
_BUFSIZE = 16 * _KIB
_GROWS = Version(3, 1)


def _body(view: NginxView) -> Iterator[Finding]:
    for one in view.passes:
        said = one.level.first("client_max_body_size")
        value = size(said.value) if said else _MIB
        if value is not None and 0 < value < _BODY:
            by = "" if said else " by default"
            yield Finding(
                (said or one.directive).location,
                f"client_max_body_size is {format_size(value)}{by}: requests with an image, audio or a"
                " long conversation get a 413",
                "client_max_body_size 64m;",
            )


BODY = AuditRule(
    "body-limit",
    Severity.ERROR,
    "large requests are refused",
    "An image in a chat is a megabyte or more in base64, an agent's conversation several. NGINX's"
    " default is 1 MB.",
    "allows 64 MiB ('max_body')",
    _body,
)


def _body_buffer(view: NginxView) -> Iterator[Finding]:
    for one in view.passes:
        if one.value("proxy_request_buffering") == "off":
            continue
        said = one.level.first("client_body_buffer_size")
        value = size(said.value) if said else 16 * _KIB
        if value is not None and value < 256 * _KIB:
            by = "" if said else " by default"
            yield Finding(
                (said or one.directive).location,
                f"client_body_buffer_size is {format_size(value)}{by}: a longer prompt is written to a"
                " temporary file, and its first token arrives about 40 ms later",
                "client_body_buffer_size 1m;",
            )


BODY_BUFFER = AuditRule(
    "body-buffer",
    Severity.WARNING,
    "long prompts are written to a temporary file",
    "With prompts of 18 KB the median first token arrived 42 ms later than with a buffer of 1 MB (NGINX"
    " 1.22.1), since header and body are sent in two pieces.",
    "sets 1 MiB",
    _body_buffer,
)


def _inspected(view: HaproxyView) -> Iterator[Finding]:
    said = view.global_line("tune.bufsize")
    value = size(said.words[1]) if said and len(said.words) > 1 else _BUFSIZE
    for section in (*view.fronts, *(pool.section for pool in view.pools if pool.section.kind == "backend")):
        looks = [
            line
            for line in section.lines
            if re.search(r"json_query|req\.body\b(?!_)|req\.body,", " ".join(line.words))
        ]
        if looks and value is not None and value < 256 * _KIB:
            by = "" if said else " (the default)"
            yield Finding(
                looks[0].location,
                f"this rule sees only the first {format_size(value)} of a request{by}: with a longer"
                " prompt it may not find 'model', and the request takes the default",
                "tune.bufsize 1048576 (memory: two buffers per connection), and http-request deny"
                " deny_status 413 if nothing was found",
            )


INSPECTED = AuditRule(
    "inspected-body-cut",
    Severity.WARNING,
    "a rule inspects bodies that do not fit in the buffer",
    "With a prompt of 20 KB before `model`, `json_query` found nothing, and HAProxy used the default"
    " backend without a message (HAProxy 2.6.12).",
    "sizes the buffer for 'inspect.body', and returns 413 for larger bodies",
    haproxy=_inspected,
)


def _request_headers(view: NginxView) -> Iterator[Finding]:
    for one in view.passes:
        server = one.level.around("server")
        said = one.level.first("large_client_header_buffers")
        each = size(said.args[1]) if said and len(said.args) > 1 else 8 * _KIB
        if each is not None and each < 16 * _KIB and server is not None:
            by = "" if said else " by default"
            yield Finding(
                (said or server).location,
                f"a request header line is limited to {format_size(each)}{by}: requests with longer"
                " single sign-on tokens, cookies or tracing headers get a 400",
                "large_client_header_buffers 4 32k;",
                _below(each, 8 * _KIB),
            )


def _below(value: int, default: int) -> Severity:
    """Return how bad a size is: less than the default was somebody's decision."""
    return Severity.WARNING if value < default else Severity.INFO


def _response_headers(view: NginxView) -> Iterator[Finding]:
    for one in view.passes:
        said = one.level.first("proxy_buffer_size")
        value = size(said.value) if said else 4 * _KIB
        if value is not None and value < 16 * _KIB:
            by = "" if said else " by default (a page of memory)"
            yield Finding(
                (said or one.directive).location,
                f"response headers are limited to {format_size(value)}{by}: with longer ones the client"
                " gets a 502 after the response was computed, and the server is counted as failed",
                "proxy_buffer_size 32k; with proxy_busy_buffers_size 64k; and proxy_buffers 8 32k;",
                _below(value, 4 * _KIB),
            )


def _haproxy_headers(view: HaproxyView) -> Iterator[Finding]:
    said = view.global_line("tune.bufsize")
    value = size(said.words[1]) if said and len(said.words) > 1 else _BUFSIZE
    if value is not None and value < 32 * _KIB and view.pools and view.whole.globals:
        by = "" if said else " by default"
        place = said.location if said else view.whole.globals.location
        yield Finding(
            place,
            f"tune.bufsize is {format_size(value)}{by}: request and response headers that do not fit in"
            " it result in a 400 or a 502",
            "tune.bufsize 65536",
            _below(value, _BUFSIZE),
        )


REQUEST_HEADERS = AuditRule(
    "request-header-buffer",
    Severity.INFO,
    "the buffer for request or response headers is small",
    "Single sign-on tokens and chains of proxies produce headers of 10 KB and more.",
    "allows 32 KiB ('header_size')",
    _request_headers,
    _haproxy_headers,
)

RESPONSE_HEADERS = AuditRule(
    "response-header-buffer",
    Severity.INFO,
    "the buffer for response headers is small",
    "NGINX's default is 4 or 8 KB. For longer headers it logs 'upstream sent too big header', and the"
    " client gets a 502.",
    "allows 256 KiB",
    _response_headers,
)


def _window(view: HaproxyView) -> Iterator[Finding]:
    names = ("tune.h2.initial-window-size", "tune.h2.fe.initial-window-size", "tune.h2.fe.rxbuf")
    if any(view.global_line(name) for name in names) or view.is_part:
        return
    if view.version is not None and view.version >= _GROWS:
        return  # the window grows by itself: tune.h2.fe.rxbuf
    for front in view.fronts:
        for bind in front.own("bind")[:1]:
            protocols = bind.after("alpn") or bind.after("proto") or ""
            if "h2" in protocols.split(","):
                yield Finding(
                    bind.location,
                    "up to HAProxy 3.0 an HTTP/2 client may send 64 KB per round trip: at 100 ms a"
                    " prompt of 5 MB takes 8 s",
                    "tune.h2.initial-window-size 1048576 (in global)",
                )


WINDOW = AuditRule(
    "h2-window",
    Severity.WARNING,
    "long prompts over HTTP/2 are slow",
    "64 KB per round trip are 5 Mbit/s at 100 ms. Since 2.9 `tune.h2.fe.initial-window-size` sets the"
    " window of clients only; since 3.1 the window grows by itself.",
    "sets 1 MiB",
    haproxy=_window,
)

RULES = (BODY, BODY_BUFFER, INSPECTED, REQUEST_HEADERS, RESPONSE_HEADERS, WINDOW)
