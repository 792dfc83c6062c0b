"""``lbgen completion``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from lbgen.cli.app import lbgen
from lbgen.cli.options import Command
from lbgen.problems import LbgenError

if TYPE_CHECKING:
    from lbgen.cli.console import Console


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_obj
def command(console: Console, shell: str) -> None:
    """Print a shell's completion script.

    \b
    bash: eval "$(lbgen completion bash)" in ~/.bashrc
    zsh:  eval "$(lbgen completion zsh)" in ~/.zshrc
    fish: lbgen completion fish > ~/.config/fish/completions/lbgen.fish
    """  # noqa: D301 - click's own mark for lines that stay apart
    kind = get_completion_class(shell)
    if kind is None:
        raise LbgenError(f"no completion for {shell}")
    console.result(kind(lbgen, {}, "lbgen", "_LBGEN_COMPLETE").source())
