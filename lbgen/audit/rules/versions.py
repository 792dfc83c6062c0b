"""Known vulnerabilities that a configuration reaches, where the version of its program is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.audit.rule import AuditRule, Finding
from lbgen.checker.vulnerabilities import candidates
from lbgen.problems import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.audit.haproxy_view import HaproxyView
    from lbgen.audit.nginx_view import NginxView
    from lbgen.problems import Location
    from lbgen.readers.haproxy import Haproxy
    from lbgen.readers.nginx import Directive
    from lbgen.vocabulary import Version


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
            f"{program} {package or version} has {one.id}, {one.what}, and this configuration has what it"
            f" takes: {one.used}",
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
    "the program has a known vulnerability that this configuration reaches",
    "Each entry names what a configuration has to use for the hole to be reached. The version is that of"
    " `--target-version`, else of the installed program for files below /etc/nginx and /etc/haproxy;"
    " distributions mend holes in older versions.",
    "it has no unnamed captures and no ignore_invalid_headers; 'check' names what else a version has",
    _nginx,
    _haproxy,
)

RULES = (HOLES,)
