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
                f"proxy_ssl_verify is {by}: NGINX takes any certificate, and whoever answers at the servers'"
                " address gets prompts and keys",
                "proxy_ssl_verify on; with proxy_ssl_trusted_certificate and proxy_ssl_name",
            )
        if one.value("proxy_ssl_server_name") != "on":
            said = one.level.first("proxy_ssl_server_name")
            yield Finding(
                (said or one.directive).location,
                "NGINX names no host in the handshake (proxy_ssl_server_name is off by default): a server"
                " with several certificates shows the wrong one, or breaks off, which is a 502",
                "proxy_ssl_server_name on; with proxy_ssl_name, else the upstream's name is asked for",
            )


def _haproxy_unverified(view: HaproxyView) -> Iterator[Finding]:
    everywhere = view.global_line("ssl-server-verify", "none")
    for pool in () if view.generated else view.pools:
        for server in pool.servers:
            said = server.parameter("verify")
            if server.has("ssl") and (said == "none" or (said is None and everywhere)):
                yield Finding(
                    server.line.location,
                    f"'verify none': HAProxy takes any certificate, and whoever answers at the address of"
                    f" '{pool.name}' gets prompts and keys",
                    "ssl verify required ca-file /etc/ssl/certs/ca-certificates.crt, with sni str(NAME)",
                )
                break


UNVERIFIED = AuditRule(
    "servers-not-verified",
    Severity.WARNING,
    "TLS to the servers proves nothing",
    "NGINX neither checks a server's certificate nor names the host unless it is told to.",
    "it checks both, unless the fleet says 'verify: false'",
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
                "engines send Access-Control-Allow-Origin themselves, and this adds a second one: browsers"
                " refuse an answer with two",
                "proxy_hide_header Access-Control-Allow-Origin; beside it",
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
                    " browsers refuse an answer with two",
                    f"http-response set-header {' '.join(line.words[2:])}",
                )


def _removals(view: HaproxyView) -> Iterator[Line]:
    for section in (*view.fronts, *(pool.section for pool in view.pools)):
        yield from section.own("http-response", "del-header")


CORS = AuditRule(
    "cors-twice",
    Severity.WARNING,
    "answers have two Access-Control-Allow-Origin",
    "vLLM, SGLang and LiteLLM answer '*' to every page unless they are told otherwise.",
    "with 'cors' it removes the engine's headers and sends one of its own",
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
                "a map compares text without its case: 'bearer SK-AB' passes for 'Bearer sk-ab', which makes"
                " keys easier to guess",
                '"~^Bearer the-key$" (a dot and the like with a backslash), the same as the entry otherwise',
            )


def _is_text(name: str) -> bool:
    return name not in NO_KEYS and not name.startswith("~") and bool(key_in(name))


LOOSE = AuditRule(
    "keys-without-case",
    Severity.WARNING,
    "keys are compared without regard to case",
    "Entries of a 'map' that are no regular expressions ignore it (NGINX 1.22 to 1.30).",
    "it compares letter by letter",
    _loose,
)

RULES = (UNVERIFIED, CORS, LOOSE)
