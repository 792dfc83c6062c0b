"""The reference's page of all commands, made from the commands themselves."""
# ruff: noqa: E501 - rows of tables are lines

from __future__ import annotations

import re
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, cast

import click

from lbgen.cli.app import COMMANDS, lbgen, module_name
from lbgen.cli.help.examples import EXAMPLES
from lbgen.cli.options import Command, Option

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = """\
# The command line

`lbgen COMMAND …`, or `python -m lbgen COMMAND …`. Results go to standard output, messages to standard error, so that
results can be piped or saved. `FLEET` is a path, or `-` for standard input; several files are merged from left to right.

This page is generated from the commands; `pytest tests/cli --update-golden` updates it.

## Exit codes

| code | means |
|---|---|
| 0 | success |
| 1 | findings: an invalid fleet (with `--strict` also warnings), a difference with `render --check`, changes with `plan --exit-code`, servers that differ from the fleet with `status --exit-code`, an expectation of `trial` that did not hold or too many failed requests, a change that `apply` refused |
| 2 | wrong usage, or a failure: a missing file, a missing program, a reload that failed and was rolled back |
| 130, 141 | interrupted by Ctrl-C; the reader of the output pipe closed it |

## Options in the environment

Every option can be set by an environment variable: `--target` of `render` by `LBGEN_RENDER_TARGET`, or by `LBGEN_TARGET`
for all commands. Precedence: the command line, then `LBGEN_COMMAND_OPTION`, then `LBGEN_OPTION`. Empty variables are
ignored. For an option that may be repeated, separate the values by spaces; for a flag, write `1`. `NO_COLOR` and
`FORCE_COLOR` are respected.
"""


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join([_HEAD, *_everywhere(), *_overview(), *_sections()]).rstrip("\n") + "\n"


def _everywhere() -> Iterator[str]:
    yield "## Options of every command\n"
    context = click.Context(lbgen, info_name="lbgen", **lbgen.context_settings)
    yield from _options(lbgen, context, "LBGEN_")


def _overview() -> Iterator[str]:
    yield "## Commands\n"
    yield "| command | does |"
    yield "|---|---|"
    for name, words in COMMANDS.items():
        yield f"| [`lbgen {name}`](#lbgen-{name}) | {words} |"
    yield ""


def _sections() -> Iterator[str]:
    root = click.Context(lbgen, info_name="lbgen", **lbgen.context_settings)
    for name in COMMANDS:
        found = cast("Command", import_module(module_name(name)).command)
        context = click.Context(found, info_name=name, parent=root)
        yield f"### lbgen {name}\n"
        yield f"    lbgen {name} {' '.join(found.collect_usage_pieces(context))}\n"
        yield f"{_prose(found.help or '')}\n"
        yield "\n".join([*(f"    {line}" for line in EXAMPLES[name]), ""])
        yield from _options(found, context, f"LBGEN_{name.upper().replace('-', '_')}_")


def _options(found: click.Command, context: click.Context, prefix: str) -> Iterator[str]:
    rows = [option for option in found.params if isinstance(option, Option) and not option.hidden]
    if not rows:
        return
    yield "| option | what it is for | in the environment |"
    yield "|---|---|---|"
    for option in rows:
        names, words = option.get_help_record(context) or ("", "")  # nothing for hidden ones alone
        twin = f"{prefix}{option.long_name.upper().replace('-', '_')}"
        yield f"| {_code(names)} | {_cell(words)} | `{twin}` |"
    yield ""


def _code(names: str) -> str:
    """Return a cell of code: a bar in backticks would be the table's own for some readers of Markdown."""
    return f"`{names}`" if "|" not in names else f"<code>{escape(names).replace('|', '&#124;')}</code>"


def _cell(words: str) -> str:
    return re.sub(r"\s+", " ", words).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _prose(text: str) -> str:
    """Return a docstring's paragraphs; what click is told to leave as it is becomes a block."""
    paragraphs = re.sub(r"[ \t]*\n[ \t]*", "\n", text).strip().split("\n\n")
    return "\n\n".join(_paragraph(one) for one in paragraphs)


def _paragraph(text: str) -> str:
    if text.startswith("\b\n"):
        return "\n".join(f"    {line}" for line in text.splitlines()[1:])
    return text
