"""What servers are called and asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.audit.rule import AuditRule, Finding
from lbgen.problems import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.audit.nginx_view import NginxView


def _host(view: NginxView) -> Iterator[Finding]:
    for one in view.passes:
        names = [upstream.name for upstream in one.upstreams if "_" in upstream.name]
        if names and one.header("host") is None and f"//{names[0]}" in one.directive.value:
            yield Finding(
                one.directive.location,
                f"servers are asked for the host '{names[0]}', the upstream's name: '_' is no part of a"
                " host name, and strict servers answer 400",
                "proxy_set_header Host $host;",
            )


HOST = AuditRule(
    "upstream-name-as-host",
    Severity.WARNING,
    "servers get the upstream's name as Host",
    "It is NGINX's default. A header at an outer level does not help where the location sets any header of"
    " its own.",
    "it sends the client's Host, or what 'host_header' says",
    _host,
)


def _prefix(view: NginxView) -> Iterator[Finding]:
    for one in view.passes:
        after = one.directive.value.partition("://")[2]
        location = one.level.around("location")
        plain = location is not None and len(location.args) == 1 and location.value in {"/v1", "/v1/"}
        if plain and after.count("/") == 1 and after.endswith("/") and "$" not in after:
            yield Finding(
                one.directive.location,
                "the '/' behind the host takes /v1 off the path: engines are asked for /chat/completions,"
                " which is a 404",
                f"proxy_pass {one.directive.value.rstrip('/')};",
            )


PREFIX = AuditRule(
    "v1-taken-off",
    Severity.ERROR,
    "/v1 is taken off the path",
    "A URI in `proxy_pass`, if only a slash, replaces the location's prefix.",
    "it takes a prefix off only where 'strip_prefix' says so",
    _prefix,
)

RULES = (HOST, PREFIX)
