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
                f"client_max_body_size is {format_size(value)}{by}: a request with an image, audio or a"
                " long conversation is a 413 to the client",
                "client_max_body_size 64m;",
            )


BODY = AuditRule(
    "body-limit",
    Severity.ERROR,
    "requests are refused for their size",
    "An image in a chat is a megabyte or more in base64, a conversation of an agent several. NGINX's"
    " default is 1 MB.",
    "it has 64 MiB ('max_body')",
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
                f"client_body_buffer_size is {format_size(value)}{by}: a longer prompt goes to a file"
                " first, and its first token comes about 40 ms later",
                "client_body_buffer_size 1m;",
            )


BODY_BUFFER = AuditRule(
    "body-buffer",
    Severity.WARNING,
    "long prompts go through a file",
    "Prompts of 18 KB had their first token 42 ms later in the median than with a buffer of 1 MB (NGINX"
    " 1.22.1): header and body leave in two pieces.",
    "it has 1 MiB",
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
                f"what this looks for has to stand in the first {format_size(value)} of a request{by}: a"
                " longer prompt is cut off before 'model' is found, and the request takes the default",
                "tune.bufsize 1048576 (memory: two per connection), and http-request deny deny_status 413"
                " where nothing was found",
            )


INSPECTED = AuditRule(
    "inspected-body-cut",
    Severity.WARNING,
    "a rule looks into bodies that do not fit the buffer",
    "With 20 KB of prompt in front of `model`, `json_query` found nothing and the default backend was"
    " taken without a word (HAProxy 2.6.12).",
    "it sizes the buffer for 'inspect.body' and answers 413 for what is longer",
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
                f"a header line of a request may have {format_size(each)}{by}: longer tokens of single"
                " sign-on, cookies and traces are a 400 to the client",
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
                f"the header of an answer may have {format_size(value)}{by}: a longer one is a 502 to the"
                " client, after the answer was computed, and counts as a failure of the server",
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
            f"tune.bufsize is {format_size(value)}{by}: the headers of a request, or of an answer, have to"
            " fit in it, else they are a 400 or a 502 to the client",
            "tune.bufsize 65536",
            _below(value, _BUFSIZE),
        )


REQUEST_HEADERS = AuditRule(
    "request-header-buffer",
    Severity.INFO,
    "headers of requests, or of answers, have little room",
    "Tokens of single sign-on and chains of proxies make headers of 10 KB and more.",
    "it has room for 32 KiB ('header_size')",
    _request_headers,
    _haproxy_headers,
)

RESPONSE_HEADERS = AuditRule(
    "response-header-buffer",
    Severity.INFO,
    "headers of answers have little room",
    "NGINX takes 4 or 8 KB by default. What does not fit is 'upstream sent too big header' in its log and"
    " a 502 to the client.",
    "it has 256 KiB",
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
                    "a client over HTTP/2 may send 64 KB before it waits for HAProxy's go-ahead (up to"
                    " 3.0): from 100 ms away a prompt of 5 MB takes 8 s",
                    "tune.h2.initial-window-size 1048576 (in global)",
                )


WINDOW = AuditRule(
    "h2-window",
    Severity.WARNING,
    "long prompts over HTTP/2 arrive slowly",
    "64 KB in each round trip are 5 Mbit/s at 100 ms. From 2.9 on the setting for clients alone is"
    " `tune.h2.fe.initial-window-size`, from 3.1 on the window grows by itself.",
    "it has 1 MiB",
    haproxy=_window,
)

RULES = (BODY, BODY_BUFFER, INSPECTED, REQUEST_HEADERS, RESPONSE_HEADERS, WINDOW)
