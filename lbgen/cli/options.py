"""Options that several commands share, and how every option finds its twin in the environment."""

from __future__ import annotations

import gc
import os
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lbgen.cli.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from click.shell_completion import CompletionItem

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

MOST_RATE = 1_000_000
"""Requests per second."""
MOST_LOAD = 100
"""Times what the servers can carry."""


class Option(click.Option):
    """An option that can be set in the environment, for one command or for all.

    ``--target`` of ``render`` is ``LBGEN_RENDER_TARGET``, else ``LBGEN_TARGET``. Options that may be
    given more than once take words there, separated by blanks.
    """

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the twin's value; an empty one counts as not set."""
        word = self.long_name.upper().replace("-", "_")
        command = (ctx.info_name or "").upper().replace("-", "_")
        names = (f"LBGEN_{command}_{word}", f"LBGEN_{word}") if ctx.parent else (f"LBGEN_{word}",)
        return next((value for name in names if (value := os.environ.get(name))), None)

    @property
    def long_name(self) -> str:
        """The option as people write it, without the dashes."""
        return max((text.lstrip("-") for text in self.opts), key=len)


class Command(click.Command):
    """A command that takes the global options too, since people write them last."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - handed on to click as they are
        super().__init__(*args, **kwargs)
        self.params.extend(global_options(hidden=True))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's examples, then what it has to add."""
        from lbgen.cli.help.examples import EXAMPLES  # noqa: PLC0415 - only somebody who asks for help needs them

        with formatter.section("Examples"):
            for line in EXAMPLES.get(ctx.info_name or "", ()):
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")
        super().format_epilog(ctx, formatter)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own signature
        """Run the command; the collector, off while everything was imported, looks only at what comes now."""
        if not gc.isenabled():
            gc.freeze()
            gc.enable()
        return super().invoke(ctx)


def global_options(*, hidden: bool = False) -> list[click.Parameter]:
    """Return ``-q``, ``-v`` and ``--color``; they act on the context's `Console`."""
    kwargs: dict[str, Any] = {"expose_value": False, "hidden": hidden, "callback": _set_on_console}
    return [
        Option(["-q", "--quiet"], is_flag=True, help="Print only errors and results.", **kwargs),
        Option(["-v", "--verbose"], is_flag=True, help="Also print what is being done.", **kwargs),
        Option(
            ["--color"],
            type=click.Choice(["auto", "always", "never"]),
            help="Colour the output; auto: when it goes to a terminal.",
            **kwargs,
        ),
    ]


def option(*names: str, **kwargs: Any) -> Decorator:  # noqa: ANN401 - click's own keywords
    """Return click's option decorator for our `Option`."""
    return click.option(*names, cls=Option, **kwargs)


def or_standard_output(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Take ``-`` for what no ``-o`` means: standard output."""
    return None if value == "-" else value


def format_option(help_text: str, *choices: str, name: str = "format") -> Decorator:
    """Return ``--format``, by default the first of the choices (``text``, and ``json`` for programs)."""
    kinds = choices or ("text", "json")
    return option(
        "--format", name, type=click.Choice(kinds), default=kinds[0], show_default=True, help=help_text
    )


def templates_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--templates``, for the commands that render."""
    help_text = "A folder of templates that override the built-in ones."
    return option("--templates", metavar="DIR", type=click.Path(), help=help_text)(function)


class Amount(click.FloatRange):
    """A number above 0 (or from it, with `zero`), and neither nan nor infinite."""

    def __init__(self, most: float, *, zero: bool = False) -> None:
        super().__init__(0, most, min_open=not zero)
        self._most = most
        self._zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - click's own signature
        """Return the number; `click.FloatRange` lets nan pass, which is neither too small nor too large."""
        number = float(click.FLOAT.convert(value, param, ctx))
        if 0 < number <= self._most or (self._zero and number == 0):
            return number
        lowest = "at least 0" if self._zero else "above 0"
        return self.fail(f"{number:g}: has to be {lowest} and at most {self._most:g}", param, ctx)


class FleetRequest(NamedTuple):
    """Which fleet a command is about, as the command line says it."""

    names: tuple[str, ...]
    """Paths, and ``-`` for standard input."""
    targets: tuple[str, ...]
    sets: tuple[str, ...]
    target_versions: tuple[str, ...]
    balancer: str | None


def fleet_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what every command that reads a fleet takes, handed on as one `FleetRequest`."""

    @wraps(function)
    def with_request(*args: object, **options: Any) -> object:  # noqa: ANN401 - what click parsed
        request = FleetRequest(*(options.pop(name) for name in ("fleet", *FleetRequest._fields[1:])))
        return function(*args, request, **options)

    decorated: Callable[..., Any] = with_request
    for decorate in (
        option(
            "--balancer",
            metavar="NAME",
            help="Render for this balancer of the fleet (balancers.peers).",
        ),
        option(
            "--target-version",
            "target_versions",
            multiple=True,
            metavar="[TARGET=]VERSION",
            help="Use this version of the target instead of the fleet's.",
        ),
        option(
            "--set",
            "sets",
            multiple=True,
            metavar="KEY=VALUE",
            help="Override one value of the fleet, such as pools.chat.strategy=round_robin; may be repeated.",
        ),
        option(
            "-t",
            "--target",
            "targets",
            multiple=True,
            type=TargetName(),
            help="Target to work on; may be repeated. Default: the fleet's targets, or NGINX and HAProxy.",
        ),
        click.argument(
            "fleet", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="FLEET..."
        ),
    ):
        decorated = decorate(decorated)
    return decorated


if TYPE_CHECKING:
    _Base = click.ParamType[str]
else:  # generic since click 8.5
    _Base = click.ParamType


class TargetName(_Base):
    """The name of a target."""

    name = "target"

    def get_metavar(self, *_: object, **__: object) -> str:
        """Return ``nginx|haproxy``."""
        return "|".join(_target_names())

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name as it is; fails with the nearest known one."""
        names = list(_target_names())
        if value in names:
            return value
        return self.fail(f"'{value}' is not a target: {nearest(value.lower(), names)}", param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin like this."""
        del ctx, param
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only a shell needs it

        return [CompletionItem(name) for name in _target_names() if name.startswith(incomplete)]


def nearest(word: str, known: Iterable[str]) -> str:
    """Return advice for a word that is not among the known ones."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake pays for it

    names = list(known)
    near = get_close_matches(word, names, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"


def _target_names() -> Iterable[str]:
    from lbgen.targets.registry import TARGETS  # noqa: PLC0415 - the options of most commands need no targets

    return TARGETS


def _set_on_console(ctx: click.Context, param: click.Parameter, value: bool | str | None) -> None:
    console = ctx.ensure_object(Console)
    if value and param.name:
        setattr(console, param.name, value)
