"""The reference's page of the audit's rules, made from the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.audit.registry import AUDIT_RULES, THEMES

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = """\
# Audit rules

The rules of `lbgen audit` for an existing nginx.conf or haproxy.cfg; see [how to use it](../howto/audit.md).
For fleet files, see the [rules of `check`](rules.md).

This page is generated from the rules (`pytest tests/audit --update-golden`). Each rule has a file in
`tests/audit/` that it reports, and one that it does not.
"""


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join([_HEAD, *_overview(), *_sections()])


def _overview() -> Iterator[str]:
    yield "| code | | looks at | found when |"
    yield "|---|---|---|---|"
    for rule in AUDIT_RULES.values():
        yield f"| [`{rule.code}`](#{rule.code}) | {rule.severity} | {rule.targets} | {rule.summary} |"
    yield ""


def _sections() -> Iterator[str]:
    for title, rules in THEMES.items():
        yield f"## {title}\n"
        for rule in rules:
            yield f"### {rule.code}\n"
            yield f"**{rule.severity.capitalize()}** when {rule.summary} ({rule.targets}).\n"
            yield f"{rule.why}\n"
            yield f"lbgen {rule.rendered}.\n"
