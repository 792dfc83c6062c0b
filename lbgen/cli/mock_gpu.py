"""``lbgen mock-gpu``."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import click

from lbgen.cli.options import Command, option
from lbgen.problems import LbgenError
from lbgen.simulate.profiles import DEFAULT_PROFILE, PROFILES

if TYPE_CHECKING:
    from lbgen.cli.console import Console


@click.command(cls=Command)
@option("--port", type=click.IntRange(0, 65_535), required=True, help="Where it listens; 0: any free port.")
@option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@option("--name", default="mock", show_default=True, help="Stands in the header x-mock-server.")
@option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    default=DEFAULT_PROFILE,
    show_default=True,
    help="How fast the GPU is.",
)
@option("--slots", type=click.IntRange(1, 100_000), help="Requests that it computes at once.")
@option(
    "--speed",
    type=click.FloatRange(0, 10_000, min_open=True),
    default=1.0,
    show_default=True,
    help="Seconds of the GPU in a second of the clock.",
)
@option("--engine", default="vllm", show_default=True, help="Whose names /metrics uses.")
@click.pass_obj
def command(console: Console, /, **options: Any) -> None:  # noqa: ANN401 - click's
    """Run one mock GPU server.

    It speaks OpenAI's API, with made-up tokens at a real engine's pace. Runs until SIGTERM or Ctrl-C.
    Faults can be ordered under /mock/faults.
    """
    del console
    try:
        from lbgen.lab import mock_gpu  # noqa: PLC0415 - h11 is an extra
    except ImportError as error:
        raise LbgenError(f"lbgen mock-gpu needs the package {error.name}: pip install 'lbgen[lab]'") from None
    words = [f"--{name}={value}" for name, value in options.items() if value is not None]
    mock_gpu.raise_descriptor_limit()
    try:
        asyncio.run(mock_gpu.serve(mock_gpu.parser().parse_args(words)))
    except OSError as error:
        where = f"{options['host']}:{options['port']}"
        raise LbgenError(f"cannot listen on {where}: {os.strerror(error.errno or 0)}") from None
    except ValueError as error:
        raise LbgenError(str(error)) from None
