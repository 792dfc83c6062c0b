"""Whom keys and prompts are given to, and who is taken for whom."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.audit.rule import AuditRule, Finding
from lbgen.audit.rules.exposure import KEYED, NO_KEYS
from lbgen.audit.secrets import key_in
from lbgen.problems import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.audit.haproxy_view import HaproxyView
    from lbgen.audit.nginx_view import NginxView
    from lbgen.readers.haproxy import Line

_ALLOWED = "access-control-allow-origin"


def _nginx_unverified(view: NginxView) -> Iterator[Finding]:
    for one in view.passes:
        if view.generated or not one.directive.value.startswith("https://"):
            continue
        if one.value("proxy_ssl_verify") != "on":
            said = one.level.first("proxy_ssl_verify")
            by = "off" if said else "off by default"
            yield Finding(
                (said or one.directive).location,
                f"proxy_ssl_verify is {by}: NGINX accepts any certificate, so anybody who can take over"
                " the servers' address receives prompts and keys",
                "proxy_ssl_verify on; with proxy_ssl_trusted_certificate and proxy_ssl_name",
            )
        if one.value("proxy_ssl_server_name") != "on":
            said = one.level.first("proxy_ssl_server_name")
            yield Finding(
                (said or one.directive).location,
                "NGINX sends no server name in the TLS handshake (proxy_ssl_server_name is off by"
                " default): a server with several certificates presents the wrong one, or aborts the"
                " handshake, which is a 502",
                "proxy_ssl_server_name on; with proxy_ssl_name, since the default is the upstream's name",
            )


def _haproxy_unverified(view: HaproxyView) -> Iterator[Finding]:
    everywhere = view.global_line("ssl-server-verify", "none")
    for pool in () if view.generated else view.pools:
        for server in pool.servers:
            said = server.parameter("verify")
            if server.has("ssl") and (said == "none" or (said is None and everywhere)):
                yield Finding(
                    server.line.location,
                    "'verify none': HAProxy accepts any certificate, so anybody who can take over an"
                    f" address of '{pool.name}' receives prompts and keys",
                    "ssl verify required ca-file /etc/ssl/certs/ca-certificates.crt, with sni str(NAME)",
                )
                break


UNVERIFIED = AuditRule(
    "servers-not-verified",
    Severity.WARNING,
    "certificates of servers are not verified",
    "By default NGINX neither verifies a server's certificate nor sends the server name.",
    "verifies certificates and sends the name, unless the fleet sets 'verify: false'",
    _nginx_unverified,
    _haproxy_unverified,
)


def _nginx_cors(view: NginxView) -> Iterator[Finding]:
    for one in () if view.generated else view.passes:
        added = [said for said in one.level.all("add_header") if said.value.lower() == _ALLOWED]
        hidden = any(said.value.lower() == _ALLOWED for said in one.level.all("proxy_hide_header"))
        if added and not hidden:
            yield Finding(
                added[0].location,
                "engines send Access-Control-Allow-Origin themselves, and this adds a second one:"
                " browsers refuse a response with two",
                "add proxy_hide_header Access-Control-Allow-Origin;",
            )


def _haproxy_cors(view: HaproxyView) -> Iterator[Finding]:
    sections = (*view.fronts, *(pool.section for pool in view.pools if pool.section.kind == "backend"))
    for section in () if view.generated else sections:
        removed = any(one.words[2:3] and one.words[2].lower() == _ALLOWED for one in _removals(view))
        for line in section.own("http-response", "add-header"):
            if line.words[2:3] and line.words[2].lower() == _ALLOWED and not removed:
                yield Finding(
                    line.location,
                    "engines send Access-Control-Allow-Origin themselves, and this adds a second one:"
                    " browsers refuse a response with two",
                    f"http-response set-header {' '.join(line.words[2:])}",
                )


def _removals(view: HaproxyView) -> Iterator[Line]:
    for section in (*view.fronts, *(pool.section for pool in view.pools)):
        yield from section.own("http-response", "del-header")


CORS = AuditRule(
    "cors-twice",
    Severity.WARNING,
    "responses have two Access-Control-Allow-Origin headers",
    "By default vLLM, SGLang and LiteLLM send 'Access-Control-Allow-Origin: *'.",
    "removes the engine's header and sends its own if the fleet sets 'cors'",
    _nginx_cors,
    _haproxy_cors,
)


def _loose(view: NginxView) -> Iterator[Finding]:
    for level in view.whole.levels("map") if view.passes and not view.generated else ():
        if not re.search(KEYED, level.block.value):
            continue
        plain = [one for one in level.block.block or () if _is_text(one.name)]
        if plain:
            yield Finding(
                plain[0].location,
                "a map ignores case: 'bearer SK-AB' matches 'Bearer sk-ab', which makes keys easier to guess",
                '"~^Bearer the-key$" (a dot and the like with a backslash), the same as the entry otherwise',
            )


def _is_text(name: str) -> bool:
    return name not in NO_KEYS and not name.startswith("~") and bool(key_in(name))


LOOSE = AuditRule(
    "keys-without-case",
    Severity.WARNING,
    "the comparison of keys ignores case",
    "Only regular expressions in a `map` respect case (NGINX 1.22 to 1.30).",
    "respects case",
    _loose,
)

RULES = (UNVERIFIED, CORS, LOOSE)
