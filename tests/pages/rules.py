"""The reference's page of all rules, made from the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.fleet.rules.registry import RULES, THEMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.fleet.rules.rule import Rule

_HEAD = """\
# Rules

What `lbgen check` and `lbgen render` find in a fleet file beyond single values. An error stops the work; a
warning does not, unless `--strict` asks for that. Each problem has a code that stays, and stands at a line:

    fleet.yaml:7:14: warning[health-off]: HAProxy goes on sending requests to a dead server of 'chat'

A rule that does not fit is silenced on its line, and an entry that silences nothing is itself reported:

```yaml
    health: false # lbgen: ignore[health-off]
```

No rule fires on a default, but one: `open-listener` is for the listener that nobody wrote, too.

This page is made from the rules and from the examples that test them; `pytest tests/rules --update-golden`
writes it anew.
"""


def page(examples: Mapping[str, tuple[str, str]]) -> str:
    """Return the page as Markdown. `examples`: code -> a file that fires the rule, and one that does not."""
    return "\n".join([_HEAD, *_overview(), *_sections(examples)])


def _overview() -> Iterator[str]:
    yield "| code | | found when |"
    yield "|---|---|---|"
    for rule in RULES.values():
        yield f"| [`{rule.code}`](#{rule.code}) | {rule.severity} | {rule.summary} |"
    yield ""


def _sections(examples: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for title, rules in THEMES.items():
        yield f"## {title}\n"
        for rule in rules:
            yield from _section(rule, *examples[rule.code])


def _section(rule: Rule, fires: str, quiet: str) -> Iterator[str]:
    yield f"### {rule.code}\n"
    yield f"**{rule.severity.capitalize()}** when {rule.summary}.\n"
    yield f"{rule.why}\n"
    yield f"Instead: {rule.remedy}.\n"
    yield f"```yaml\n# wrong\n{fires}```\n"
    yield f"```yaml\n# right\n{quiet}```\n"
