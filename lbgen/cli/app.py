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
    "init": "Write a commented fleet file to start from.",
    "render": "Render configuration files from a fleet file.",
    "check": "Check a fleet file, and the files rendered from it with the real programs.",
    "audit": "Find settings in an existing nginx.conf or haproxy.cfg that harm LLM requests.",
    "show": "Show a fleet with every default filled in.",
    "schema": "Print the JSON Schema of the fleet file.",
    "import": "Convert an existing nginx.conf or haproxy.cfg into a fleet file.",
    "simulate": "Predict by simulation how strategies perform for a pool.",
    "size": "Find by simulation how many servers an objective needs.",
    "calibrate": "Measure the speed of a running engine and write it as a profile.",
    "trial": "Measure strategies with the real balancers in front of mock GPU servers.",
    "mock-gpu": "Run mock GPU servers.",
    "plan": "Show what applying a fleet would change, by pools and servers.",
    "apply": "Apply a fleet: check, replace the files, reload, verify; roll back on failure.",
    "drain": "Take a server out of rotation at run time and wait for its last request.",
    "undrain": "Return a drained server to rotation at run time.",
    "status": "Show the running servers: state, requests in flight, queue, rate, last check.",
    "agent": "Read engine metrics and answer HAProxy's agent checks with weights and caps.",
    "completion": "Print a shell's completion script.",
}
"""What each command does. NAME is `command` in ``lbgen/cli/NAME.py``; a new one is one line here."""

_MODULES = {"import": "import_fleet"}
"""Commands whose name no module can have."""

_EPILOG = """\
Results go to standard output, messages to standard error. Exit codes: 0 success, 1 findings, 2 wrong usage
or a failure. Every option can be set by an environment variable: --target of render by LBGEN_RENDER_TARGET,
and for all commands by LBGEN_TARGET. 'lbgen COMMAND --help' has examples."""


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
        help="Generate, check and apply load balancer configuration for LLM inference servers.",
        epilog=_EPILOG,
        params=[version, *global_options()],
        context_settings=settings,
    )


lbgen = _root()
