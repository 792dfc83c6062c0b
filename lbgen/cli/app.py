"""The command ``lbgen``: a table of commands, each imported only when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import click

from lbgen import __version__
from lbgen.cli.options import global_options, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUPS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "describe": (
        "Fleet files",
        {
            "init": "Write a commented fleet file to start from.",
            "import": "Convert an existing nginx.conf or haproxy.cfg into a fleet file.",
            "audit": "Find settings in an existing nginx.conf or haproxy.cfg that harm LLM requests.",
            "check": "Check a fleet file, and the files rendered from it with the real programs.",
            "show": "Show a fleet with every default filled in.",
            "schema": "Print the JSON Schema of the fleet file.",
        },
    ),
    "predict": (
        "Predictions and measurements",
        {
            "simulate": "Predict by simulation how strategies perform for a pool.",
            "size": "Find by simulation how many servers an objective needs.",
            "calibrate": "Measure the speed of a running engine and write it as a profile.",
            "trial": "Measure strategies with the real balancers in front of mock GPU servers.",
            "mock-gpu": "Run mock GPU servers.",
        },
    ),
    "operate": (
        "Balancers",
        {
            "render": "Render configuration files from a fleet file.",
            "plan": "Show what applying a fleet would change, by pools and servers.",
            "apply": "Apply a fleet: check, replace the files, reload, verify; roll back on failure.",
            "status": "Show the running servers: state, requests in flight, queue, rate, last check.",
            "drain": "Take a server out of rotation at run time and wait for its last request.",
            "undrain": "Return a drained server to rotation at run time.",
            "agent": "Read engine metrics and answer HAProxy's agent checks with weights and caps.",
        },
    ),
    "help": ("Shell", {"completion": "Print a shell's completion script."}),
}
"""Commands by folder: its heading, and what each command does.

NAME is `command` in ``lbgen/cli/FOLDER/NAME.py``; a new one is one line here.
"""

COMMANDS: Mapping[str, str] = {
    name: does for _, commands in GROUPS.values() for name, does in commands.items()
}
"""What each command does."""

_MODULES = {"import": "import_fleet"}
"""Commands whose name no module can have."""

_EPILOG = """\
Results go to standard output, messages to standard error. Exit codes: 0 success, 1 findings, 2 wrong usage
or a failure. Every option can be set by an environment variable: --target of render by LBGEN_RENDER_TARGET,
and for all commands by LBGEN_TARGET. 'lbgen help COMMAND' has examples."""


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
        module = import_module(module_name(cmd_name))
        return cast("click.Command", module.command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with; fails with the nearest known one.

        ``help`` and ``help COMMAND`` stand for ``--help`` and ``COMMAND --help``.
        """
        if args == ["help"] and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        if args[0] == "help" and len(args) > 1:
            args = [args[1], "--help"]
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"'{args[0]}' is not a command: {nearest(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table, without importing a single command."""
        del ctx
        width = max(map(len, COMMANDS))
        for heading, commands in GROUPS.values():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), does) for name, does in commands.items()])


def module_name(command: str) -> str:
    """Return the module of a command."""
    folder = next(folder for folder, (_, commands) in GROUPS.items() if command in commands)
    return f"lbgen.cli.{folder}.{_MODULES.get(command, command.replace('-', '_'))}"


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
