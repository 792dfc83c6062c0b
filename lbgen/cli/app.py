"""The command ``lbgen``: a table of commands, each imported only when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import click

from lbgen import __version__
from lbgen.cli.options import global_options, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMANDS: Mapping[str, str] = {
    "init": "Write a commented first fleet file.",
    "render": "Render configuration files from a fleet.",
    "check": "Check a fleet, and what is rendered from it, with the real programs.",
    "audit": "Find what an existing nginx.conf or haproxy.cfg does to requests for models.",
    "show": "Show a fleet as understood, with every default filled in.",
    "schema": "Print the JSON Schema of the fleet file.",
    "import": "Make a fleet file of an existing nginx.conf or haproxy.cfg.",
    "simulate": "Predict what strategies would do to a pool, by simulation.",
    "size": "Say how many servers of which kind an objective takes, by simulation.",
    "calibrate": "Measure how fast a running engine is, and write a profile of it.",
    "trial": "Measure what strategies do, with the real programs in front of mock GPU servers.",
    "mock-gpu": "Run one mock GPU server.",
    "plan": "Say what applying a fleet would change, in words of pools and servers.",
    "apply": "Put a fleet into effect: check the candidate, replace the files, reload, look, else roll back.",
    "drain": "Take a server out of rotation while HAProxy runs, and wait for its last request.",
    "undrain": "Take a drained server back into rotation while HAProxy runs.",
    "status": "Show what runs now: each server's state, requests in flight, queue, rate and last check.",
    "agent": "Read the engines' metrics and answer HAProxy's agent-check with weights.",
    "completion": "Print a shell's completion script.",
}
"""What each command does. NAME is `command` in ``lbgen/cli/NAME.py``; a new one is one line here."""

_MODULES = {"import": "import_fleet"}
"""Commands whose name no module can have."""

_EPILOG = """\
Results go to standard output, messages to standard error. Exit codes: 0 fine, 1 findings, 2 wrong usage or
work that could not be done. Every option has a twin in the environment: --target of render is
LBGEN_RENDER_TARGET, or LBGEN_TARGET for every command."""


class LazyGroup(click.Group):
    """A group that knows its commands by a table and imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported now."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"lbgen.cli.{module_name(cmd_name)}")
        return cast("click.Command", module.command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with; fails with the nearest known one."""
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"'{args[0]}' is not a command: {nearest(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table, without importing a single command."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def module_name(command: str) -> str:
    """Return the module of a command, below ``lbgen.cli``."""
    return _MODULES.get(command, command.replace("-", "_"))


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"lbgen {__version__}")
        ctx.exit()


def _root() -> LazyGroup:
    version = click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_version,
        help="Print the version.",
    )
    settings: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
    return LazyGroup(
        "lbgen",
        help="NGINX and HAProxy configuration for fleets of LLM inference servers.",
        epilog=_EPILOG,
        params=[version, *global_options()],
        context_settings=settings,
    )


lbgen = _root()
