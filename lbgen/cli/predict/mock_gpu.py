"""``lbgen mock-gpu``."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import click

from lbgen.cli.options import Amount, Command, option
from lbgen.descriptors import raise_descriptor_limit
from lbgen.lab.mock.faults import HEADER, KINDS
from lbgen.problems import LbgenError
from lbgen.simulate.servers.step_times.profiles import DEFAULT_PROFILE, NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.cli.console import Console

ENGINES = ("vllm", "sglang", "tgi", "llamacpp")

_WIDEST = max(map(len, KINDS))
EPILOG = "\n".join([
    "\b", "Faults, for --fault:",
    *(f"  {kind:{_WIDEST}}  {does}" for kind, does in KINDS.items()),
    "", "\b", "While it runs (count: so often; path: /health makes health checks sick):",
    """  curl localhost:8000/mock/faults -d '{"kind": "status", "status": 429, "count": 3}'""",
    """  curl localhost:8000/mock/faults -d '{"kind": "slow", "delay_s": 3, "path": "/health"}'""",
    "  curl -X DELETE localhost:8000/mock/faults",
    "", f"One request strikes itself with the header '{HEADER}: half'. /mock/state, /mock/requests and",
    "/mock/in_flight tell what was seen; POST /mock/reset forgets it.",
])  # fmt: skip


@click.command(cls=Command, epilog=EPILOG)
@option("--port", type=click.IntRange(0, 65_535), required=True, help="Port to listen on; 0: any free port.")
@option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@option("--tls-port", type=click.IntRange(0, 65_535), help="Also serve TLS on this port.")
@option(
    "--certificate",
    metavar="FILE",
    help="PEM file with certificate and key for --tls-port. Default: a generated one.",
)
@option(
    "--count",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    help="Number of servers, on this port and the following ones.",
)
@option("--name", default="mock", show_default=True, help="Value of the response header x-mock-server.")
@option("--model", multiple=True, help="A name for /v1/models; may be repeated. Default: mock.")
@option(
    "--profile",
    metavar="NAME|FILE.yaml",
    default=DEFAULT_PROFILE,
    show_default=True,
    help=f"Speed of the GPU: {', '.join(NAMES)}, or a file of lbgen calibrate.",
)
@option("--slots", type=click.IntRange(1, 100_000), help="Requests that it computes at once.")
@option(
    "--speed",
    type=Amount(10_000),
    default=1.0,
    show_default=True,
    help="Simulated seconds per real second.",
)
@option(
    "--engine",
    default=ENGINES[0],
    show_default=True,
    help=f"Whose names /metrics uses: {', '.join(ENGINES)}.",
)
@option(
    "--load-seconds",
    type=Amount(1_000_000_000, zero=True),
    default=0.0,
    show_default=True,
    help="How long the model loads: /health answers 503 meanwhile.",
)
@option(
    "--fault",
    multiple=True,
    metavar="KIND[:ARGUMENT][@PATH]",
    help="Fail in this way from the start; see below.",
)
@click.pass_obj
def command(console: Console, /, **options: Any) -> None:  # noqa: ANN401 - click's
    """Run mock GPU servers.

    They speak OpenAI's API and produce placeholder tokens at the speed of a real engine, until SIGTERM or
    Ctrl-C. The ARGUMENT of --fault is a status for 'status' (status:429) and otherwise a delay in seconds
    (slow:3@/health).
    """
    del console
    try:
        from lbgen.lab.mock import mock_gpu  # noqa: PLC0415 - h11 is an extra
    except ImportError as error:
        raise LbgenError(f"lbgen mock-gpu needs the package {error.name}: pip install 'lbgen[lab]'") from None
    if options["certificate"] and options["tls_port"] is None:
        raise click.UsageError("--certificate needs --tls-port")
    raise_descriptor_limit()
    mock_gpu.collect_rarely()
    try:
        asyncio.run(mock_gpu.serve(mock_gpu.parser().parse_args(list(_words(options)))))
    except OSError as error:
        host = f"[{options['host']}]" if ":" in options["host"] else options["host"]
        where = f"{host}:{_ports(options)}"
        raise LbgenError(f"cannot listen on {where}: {os.strerror(error.errno or 0)}") from None
    except ValueError as error:
        raise LbgenError(str(error)) from None


def _words(options: dict[str, Any]) -> Iterator[str]:
    """Yield the options as the program's own command line takes them."""
    for name, value in options.items():
        for one in value if isinstance(value, tuple) else (value,):
            if one is not None:
                yield f"--{name.replace('_', '-')}={one}"


def _ports(options: dict[str, Any]) -> str:
    first, last = options["port"], options["port"] + options["count"] - 1
    ports = f"{first} to {last}" if options["count"] > 1 and first else f"{first}"
    return ports + (f" or {options['tls_port']}" if options["tls_port"] is not None else "")
