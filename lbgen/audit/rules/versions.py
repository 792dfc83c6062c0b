"""Known vulnerabilities that a configuration reaches, where the version of its program is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.audit.rule import AuditRule, Finding
from lbgen.checker.vulnerabilities import candidates
from lbgen.problems import Severity
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.audit.haproxy_view import HaproxyView
    from lbgen.audit.nginx_view import NginxView
    from lbgen.problems import Location
    from lbgen.readers.haproxy import Haproxy
    from lbgen.readers.nginx import Directive


def nginx_shape(root: Directive) -> str:
    """Return the directives alone, one a line: what comments and layout hide, or pretend."""
    lines: list[str] = []
    waiting: list[Directive | str] = list(reversed(root.block or ()))
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            lines.append(one)
        elif one.block is None:
            lines.append(" ".join([one.name, *one.args]) + ";")
        else:
            lines.append(" ".join([one.name, *one.args]) + " {")
            waiting.append("}")
            waiting.extend(reversed(one.block))
    return "\n".join(lines)


def haproxy_shape(whole: Haproxy) -> str:
    """Return the lines without comments; a ``listen`` is a frontend as well."""
    lines: list[str] = []
    for section in whole.sections:
        kind = "frontend" if section.kind == "listen" else section.kind
        lines.append(f"{kind} {section.name}")
        lines += ["    " + " ".join(line.words) for line in section.lines]
    return "\n".join(lines)


def _holes(program: str, version: Version, package: str, text: str, place: Location) -> Iterator[Finding]:
    for one in candidates(program, version, [text]):
        if package and one.mended(package):
            continue
        fixed = [*one.fixed, *([one.mended_in(package)] if one.mended_in(package) else [])]
        yield Finding(
            place,
            f"{program} {package or version} has {one.id}, {one.what}, and this configuration is"
            f" affected: {one.used}",
            f"update {program} ({', '.join(fixed)}); {one.source}",
        )


def _nginx(view: NginxView) -> Iterator[Finding]:
    if view.version is not None and view.passes:
        root = view.whole.root
        yield from _holes("nginx", view.version, view.package, nginx_shape(root), root.location)


def _haproxy(view: HaproxyView) -> Iterator[Finding]:
    if view.version is not None and view.pools:
        place = view.whole.sections[0].location
        yield from _holes("haproxy", view.version, view.package, haproxy_shape(view.whole), place)


HOLES = AuditRule(
    "known-hole",
    Severity.WARNING,
    "the program has a known vulnerability that affects this configuration",
    "A vulnerability is reported only if the configuration uses the affected feature. The version comes"
    " from `--target-version`, or, for files below /etc/nginx and /etc/haproxy, from the installed program."
    " Fixes by the distribution are taken into account.",
    "uses neither unnamed captures nor ignore_invalid_headers, and reports the other vulnerabilities of"
    " a version in 'check'",
    _nginx,
    _haproxy,
)

_PLUS = {
    "health_check": None, "queue": None, "state": None,
    "sticky": Version(1, 29, 6), "least_time": Version(1, 31, 0),
}  # fmt: skip
"""Directives of an upstream, or beside ``proxy_pass``, that NGINX's free version lacks up to a version."""
_GONE = {
    "nbproc": "2.5", "reqrep": "2.1", "reqirep": "2.1", "reqadd": "2.1", "reqdel": "2.1", "reqidel": "2.1",
    "rspadd": "2.1", "rsprep": "2.1", "rspdel": "2.1", "block": "2.1", "contimeout": "2.1",
    "clitimeout": "2.1", "srvtimeout": "2.1",
}  # fmt: skip
"""Words of HAProxy, and since when they stop its start."""


def _nginx_refused(view: NginxView) -> Iterator[Finding]:
    levels = [one.directive for one in view.upstreams] + [one.level.block for one in view.passes]
    for block in {one.location: one for one in levels}.values() if not view.generated else ():
        for said in block.inside(*_PLUS):
            since = _PLUS[said.name]
            if since is None or view.version is None or view.version < since:
                free = f" before {since}" if since else ""
                yield _refused(
                    said.location, f"open-source NGINX{free} has no '{said.name}'", "remove this line"
                )
        for server in block.inside("server") if block.name == "upstream" else ():
            if server.parameter("slow_start") is not None:
                yield _refused(
                    server.location, "open-source NGINX has no 'slow_start'", "remove this parameter"
                )
                break


def _nginx_templates(view: NginxView) -> Iterator[Finding]:
    """Find places where NGINX takes no variable, so that something fills the file in."""
    lines = [one for upstream in view.upstreams for one in upstream.servers]
    lines += [
        one
        for pass_ in view.passes
        if (block := pass_.level.around("server"))
        for one in block.inside("listen")
    ]
    for said in lines:
        if "$" in said.value:
            yield Finding(
                said.location,
                "NGINX does not allow a variable here: this file is a template, and 'envsubst' without a"
                " list of names also replaces $host and other NGINX variables",
                "envsubst '$NAME $OTHER', or a file in /etc/nginx/templates of the official image",
                Severity.INFO,
            )
            return


def _nginx_old(view: NginxView) -> Iterator[Finding]:
    yield from _nginx_refused(view)
    yield from _nginx_templates(view)


def _haproxy_refused(view: HaproxyView) -> Iterator[Finding]:
    for section in view.whole.sections if view.pools else ():
        for line in section.lines:
            word = line.words[0]
            if word in _GONE:
                write = "http-request or http-response with replace-, set- or del-header; nbthread; timeout"
                yield _refused(line.location, f"HAProxy refuses '{word}' since {_GONE[word]}", write)
            elif line.words[:2] == ("option", "httpchk") and any("\r\n" in one for one in line.words[2:]):
                path = next((one for one in line.words[2:] if one.startswith("/")), "/")
                yield _refused(
                    line.location,
                    "HAProxy refuses headers after the version in 'option httpchk' since 3.0, and warns"
                    " before",
                    f"option httpchk, and http-check send meth GET uri {path} ver HTTP/1.1 hdr Host"
                    " localhost",
                )


def _refused(place: Location, what: str, write: str) -> Finding:
    return Finding(place, f"{what}: the program does not start with this file", write)


REFUSED = AuditRule(
    "does-not-start",
    Severity.WARNING,
    "a common version of the program refuses the file",
    "Examples on the web are often for NGINX Plus or for old versions: the program refuses them after an"
    " upgrade of the distribution.",
    "uses only what the target's version supports",
    _nginx_old,
    _haproxy_refused,
)

RULES = (HOLES, REFUSED)
