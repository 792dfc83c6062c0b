"""One mock GPU server: ``python3 -m lbgen.lab.mock_gpu --port 8000``.

Needs Python 3.11 and h11 alone, so that it runs in any container that has a Python.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import signal
import sys
from typing import TYPE_CHECKING

from lbgen.lab.mock_server import MockGpu, Settings
from lbgen.simulate.profiles import DEFAULT_PROFILE, PROFILES

if TYPE_CHECKING:
    from collections.abc import Sequence


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(prog="lbgen.lab.mock_gpu", description="One mock GPU server.")
    line.add_argument("--host", default="0.0.0.0", help="address to listen on")  # noqa: S104 - for containers
    line.add_argument("--port", type=int, required=True, help="0: any free port")
    line.add_argument("--name", default="mock", help="stands in the header x-mock-server")
    line.add_argument("--profile", default=DEFAULT_PROFILE, choices=PROFILES, help="how fast the GPU is")
    line.add_argument("--slots", type=int, help="requests in the batch at most (default: the profile's)")
    line.add_argument("--speed", type=float, default=1.0, help="virtual seconds in a second")
    line.add_argument("--model", action="append", help="a name for /v1/models (default: mock)")
    line.add_argument("--engine", default="vllm", help="whose metric names are shown")
    line.add_argument("--load-seconds", type=float, default=0.0, help="how long /health answers 503 at first")
    line.add_argument("--chunk-ms", type=float, default=10.0, help="shortest time between pieces of a stream")
    line.add_argument("--keep-alive", type=float, default=5.0, help="seconds that an idle connection is kept")
    return line


async def serve(arguments: argparse.Namespace) -> None:
    """Run until SIGTERM or SIGINT; raises `OSError` when the port is taken, `ValueError` for bad settings."""
    settings = Settings(
        arguments.name, arguments.profile, arguments.slots, arguments.speed,
        tuple(arguments.model or ("mock",)), arguments.engine, arguments.load_seconds,
        arguments.chunk_ms / 1000,
    )  # fmt: skip
    mock = MockGpu(settings, arguments.keep_alive)
    port = await mock.listen(arguments.host, arguments.port)
    print(f"mock GPU {arguments.name} on {arguments.host}:{port}", flush=True)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    await mock.close()


def raise_descriptor_limit() -> None:
    """Allow as many open connections as the system does: the usual soft limit is 1024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(words: Sequence[str] | None = None) -> int:
    """Run the program; return its exit code."""
    arguments = parser().parse_args(words)
    raise_descriptor_limit()
    gc.set_threshold(
        50_000, 50, 50
    )  # long-lived requests by the thousand: a full collection stalls all streams
    try:
        asyncio.run(serve(arguments))
    except (OSError, ValueError) as error:
        print(f"mock-gpu: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
