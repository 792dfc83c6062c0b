"""What an existing nginx.conf or haproxy.cfg does to requests for models: findings with their places.

One function a rule, in a module per theme below `rules`; `registry.AUDIT_RULES` lists them all by code.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lbgen.audit.haproxy_view import haproxy_view
from lbgen.audit.nginx_view import NginxView, nginx_view
from lbgen.audit.registry import AUDIT_RULES
from lbgen.audit.rule import Running
from lbgen.audit.secrets import without_credentials
from lbgen.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lbgen.audit.haproxy_view import HaproxyView
    from lbgen.audit.rule import AuditRule, Finding
    from lbgen.problems import Location
    from lbgen.readers.files import Configurations

_POOL = "\0"
"""Stands in a message for the name of the pool that it is about."""
_IGNORE = re.compile(r"#\s*lbgen:\s*ignore\[([a-z0-9,\s-]+)\]")
_NGINX_SIGN = re.compile(r"(?m)^[^#\n]*\b(?:(?:proxy|grpc)_pass|upstream)\s")
_HAPROXY_SIGN = re.compile(r"(?m)^[ \t]*(?:bind|server|server-template|default_backend|use_backend)\s+\S")
"""What a balancer's file has, however broken, and another one that looks like a configuration has not."""
_MOST_PLACES = 8
_QUOTED = re.compile(r"'([^']+)'")
_FOREIGN = re.compile(r"\w+_by_lua(?:_block|_file)?|js_\w+|perl(?:_\w+)?")


class Report(NamedTuple):
    """What an audit has to say."""

    problems: tuple[Problem, ...]
    """In the order of the files and their lines."""
    notes: tuple[str, ...]
    """What was not understood, or not looked at, each once."""


def audit(found: Configurations, running: Mapping[str, Running], *, every: bool = False) -> Report:
    """Return what rules find. `running`: by target; `every`: pools without a sign of models, too."""
    views: list[NginxView | HaproxyView] = [
        nginx_view(one, running.get("nginx", Running()), every=every) for one in found.nginx
    ]
    if found.haproxy is not None:
        views.append(haproxy_view(found.haproxy, running.get("haproxy", Running()), every=every))
    problems = [problem for view in views for problem in _problems(view)]
    notes = map(without_credentials, _notes(found, views))
    return Report(tuple(problems), tuple(dict.fromkeys(notes)))


def _problems(view: NginxView | HaproxyView) -> list[Problem]:
    order = {name: number for number, name in enumerate(view.whole.texts)}

    def place(finding: Finding) -> tuple[int, int, int]:
        return order.get(finding.location.file, 0), finding.location.line, finding.location.column

    names = {one.name for one in (view.upstreams if isinstance(view, NginxView) else view.pools)}
    lines = {name: text.split("\n") for name, text in view.whole.texts.items()}
    alike: dict[tuple[str, str], list[tuple[Finding, str]]] = {}
    for rule in AUDIT_RULES.values():
        for finding in _findings(rule, view):
            if rule.code in _ignored(lines, finding.location):
                continue
            about = next((name for name in _QUOTED.findall(finding.message) if name in names), "")
            message = finding.message.replace(f"'{about}'", _POOL) if about else finding.message
            alike.setdefault((rule.code, message), []).append((finding, about))
    wrong = _unparsed(view)
    problems = [((order.get(one.location.file, 0), *one.location[1:]), one) for one in wrong if one.location]
    problems += [
        (place(found[0][0]), _problem(AUDIT_RULES[code], message, found))
        for (code, message), several in alike.items()
        if (found := sorted(several, key=lambda one: place(one[0])))
    ]
    return [problem for _, problem in sorted(problems, key=lambda one: one[0])]


def _unparsed(view: NginxView | HaproxyView) -> list[Problem]:
    """Return the syntax errors of a balancer's file: what stands behind them was not looked at."""
    sign = _NGINX_SIGN if isinstance(view, NginxView) else _HAPROXY_SIGN
    wrong = [one for one in view.whole.problems if one.code == "configuration-syntax"]
    return wrong if wrong and any(sign.search(text) for text in view.whole.texts.values()) else []


def _ignored(texts: Mapping[str, list[str]], place: Location) -> set[str]:
    """Return the codes that a comment on a line silences: ``# lbgen: ignore[body-limit]``."""
    lines = texts.get(place.file, [])
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    return {code for codes in _IGNORE.findall(line) for code in re.split(r"[\s,]+", codes)}


def _findings(rule: AuditRule, view: NginxView | HaproxyView) -> Iterator[Finding]:
    if isinstance(view, NginxView):
        return rule.nginx(view) if rule.nginx else iter(())
    return rule.haproxy(view) if rule.haproxy else iter(())


def _problem(rule: AuditRule, message: str, found: Sequence[tuple[Finding, str]]) -> Problem:
    """Return one problem for all pools and places of which the same is to be said."""
    first = found[0][0]
    names = [f"'{name}'" for name in dict.fromkeys(about for _, about in found) if name]
    others = list(dict.fromkeys(one.location for one, _ in found if one.location != first.location))
    also = ", ".join(
        str(one.line) if one.file == first.location.file else f"{one.file}:{one.line}"
        for one in others[:_MOST_PLACES]
    )
    if len(others) > _MOST_PLACES:
        also += f" and {len(others) - _MOST_PLACES} more"
    message = message.replace(_POOL, ", ".join(names)) + (f" (also line {also})" if also else "")
    hint = without_credentials(f"instead: {first.write} (lbgen {rule.rendered})")
    message = without_credentials(message)
    return Problem(rule.code, message, (), first.severity or rule.severity, hint, first.location)


def _notes(found: Configurations, views: Sequence[NginxView | HaproxyView]) -> Iterator[str]:
    for name in found.others:
        yield f"{name}: neither an NGINX nor a HAProxy configuration"
    for view in views:
        told = _unparsed(view)
        for problem in (one for one in view.whole.problems if one not in told):
            yield f"{problem.location}: {problem.message}"
        looked = view.passes if isinstance(view, NginxView) else view.pools
        yield from _code(view) if looked else ()
    skipped = ", ".join(dict.fromkeys(name for view in views for name in view.skipped))
    if skipped:
        yield f"not looked at (--all does), since nothing says that models are served there: {skipped}"


def _code(view: NginxView | HaproxyView) -> Iterator[str]:
    """Yield the places where code of others decides."""
    if isinstance(view, NginxView):
        named = (one for one, _ in view.whole.directives() if _FOREIGN.fullmatch(one.name))
        places = [(one.location, one.name) for one in named]
    else:
        section = view.whole.globals
        places = [(line.location, line.words[-1]) for line in (section.own("lua-load") if section else ())]
    for place, name in places:
        yield f"{place}: what the code of '{name}' does is not looked at"
