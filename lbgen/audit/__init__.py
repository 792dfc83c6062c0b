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
from lbgen.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lbgen.audit.haproxy_view import HaproxyView
    from lbgen.audit.rule import AuditRule, Finding
    from lbgen.readers.files import Configurations

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
    return Report(tuple(problems), tuple(dict.fromkeys(_notes(found, views))))


def _problems(view: NginxView | HaproxyView) -> list[Problem]:
    order = {name: number for number, name in enumerate(view.whole.texts)}

    def place(finding: Finding) -> tuple[int, int, int]:
        return order.get(finding.location.file, 0), finding.location.line, finding.location.column

    alike: dict[tuple[str, str], list[Finding]] = {}
    for rule in AUDIT_RULES.values():
        for finding in _findings(rule, view):
            alike.setdefault((rule.code, finding.message), []).append(finding)
    groups = [(code, sorted(found, key=place)) for (code, _), found in alike.items()]
    groups.sort(key=lambda group: place(group[1][0]))
    return [_problem(AUDIT_RULES[code], findings) for code, findings in groups]


def _findings(rule: AuditRule, view: NginxView | HaproxyView) -> Iterator[Finding]:
    if isinstance(view, NginxView):
        return rule.nginx(view) if rule.nginx else iter(())
    return rule.haproxy(view) if rule.haproxy else iter(())


def _problem(rule: AuditRule, findings: Sequence[Finding]) -> Problem:
    """Return one problem for all places where the same is to be said."""
    first = findings[0]
    others = list(dict.fromkeys(one.location for one in findings if one.location != first.location))
    also = ", ".join(
        str(one.line) if one.file == first.location.file else f"{one.file}:{one.line}" for one in others
    )
    message = first.message + (f" (also line {also})" if also else "")
    hint = f"instead: {first.write} (lbgen's own file: {rule.rendered})"
    return Problem(rule.code, message, (), first.severity or rule.severity, hint, first.location)


def _notes(found: Configurations, views: Sequence[NginxView | HaproxyView]) -> Iterator[str]:
    for name in found.others:
        yield f"{name}: neither an NGINX nor a HAProxy configuration"
    for view in views:
        for problem in view.whole.problems:
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
