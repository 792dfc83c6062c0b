"""One mock GPU server: ``python3 -m lbgen.lab.mock.mock_gpu --port 8000``.

Needs Python 3.11 and h11 alone, so that it runs in any container that has a Python.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import ssl
import sys
import tempfile
from typing import TYPE_CHECKING

from lbgen.descriptors import raise_descriptor_limit
from lbgen.lab.mock.faults import Fault
from lbgen.lab.mock.mock_server import MockGpu, Settings
from lbgen.simulate.servers.step_times.profiles import DEFAULT_PROFILE
from lbgen.units import Address

if TYPE_CHECKING:
    from collections.abc import Sequence

HIGHEST_PORT = 65_535


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(prog="lbgen.lab.mock.mock_gpu", description="One mock GPU server.")
    line.add_argument("--host", default="0.0.0.0", help="address to listen on")  # noqa: S104 - for containers
    line.add_argument("--port", type=int, required=True, help="0: any free port")
    line.add_argument("--name", default="mock", help="stands in the header x-mock-server")
    line.add_argument("--profile", default=DEFAULT_PROFILE, help="how fast the GPU is")
    line.add_argument("--slots", type=int, help="requests in the batch at most (default: the profile's)")
    line.add_argument("--speed", type=float, default=1.0, help="virtual seconds in a second")
    line.add_argument("--model", action="append", help="a name for /v1/models (default: mock)")
    line.add_argument("--engine", default="vllm", help="whose metric names are shown")
    line.add_argument("--load-seconds", type=float, default=0.0, help="how long /health answers 503 at first")
    line.add_argument("--chunk-ms", type=float, default=10.0, help="shortest time between pieces of a stream")
    line.add_argument("--tls-port", type=int, help="serve TLS there, too; 0: any free port")
    line.add_argument("--certificate", help="PEM file with certificate and key for it (default: made up)")
    line.add_argument("--count", type=int, default=1, help="so many servers, on the following ports")
    line.add_argument("--fault", action="append", default=[], help="KIND[:ARGUMENT][@PATH], from the start")
    line.add_argument("--keep-alive", type=float, default=5.0, help="seconds that an idle connection is kept")
    return line


async def serve(arguments: argparse.Namespace) -> None:
    """Run until SIGTERM or SIGINT; raises `OSError` when the port is taken, `ValueError` for bad settings."""
    _expect_ports(arguments)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):  # before anybody hears of a server
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    mocks = [await _start(arguments, number) for number in range(arguments.count)]
    await stopped.wait()
    for mock in mocks:
        await mock.close()


async def _start(arguments: argparse.Namespace, number: int) -> MockGpu:
    name = f"{arguments.name}-{number}" if arguments.count > 1 else arguments.name
    settings = Settings(
        name, arguments.profile, arguments.slots, arguments.speed, tuple(arguments.model or ("mock",)),
        arguments.engine, arguments.load_seconds, arguments.chunk_ms / 1000,
    )  # fmt: skip
    mock = MockGpu(settings, arguments.keep_alive)
    mock.faults.ordered += map(Fault.from_text, arguments.fault)
    host, secure = arguments.host, ""
    plain = Address(host, await mock.listen(host, _following(arguments.port, number)))
    if arguments.tls_port is not None:
        tls = server_context(arguments.certificate)
        port = await mock.listen(host, _following(arguments.tls_port, number), tls)
        secure = f", with TLS on {Address(host, port)}"
    print(f"mock GPU {name} on {plain}{secure}", flush=True)
    return mock


def _expect_ports(arguments: argparse.Namespace) -> None:
    """Raise `ValueError` when there are not so many ports: before the first server begins."""
    for port in (arguments.port, arguments.tls_port):
        if port and _following(port, arguments.count - 1) > HIGHEST_PORT:
            raise ValueError(
                f"{arguments.count} servers from port {port} on are too many: the highest is {HIGHEST_PORT}"
            )


def _following(port: int, number: int) -> int:
    """Return the port of the server of this number; 0 stays any free one."""
    return port and port + number


def server_context(path: str | None) -> ssl.SSLContext:
    """Return how a mock GPU server speaks TLS; None: with a certificate that is made up.

    Raises `ValueError` for a file that is not there or holds no certificate with its key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if path is not None:
        try:
            context.load_cert_chain(path)
        except OSError as error:  # ssl.SSLError is one
            raise ValueError(f"{path}: no certificate with its key: {error.strerror or error}") from None
        return context
    from lbgen.checker.certificate import throwaway_bundle  # noqa: PLC0415 - not where only a mock runs

    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(throwaway_bundle("localhost"))
        file.flush()
        context.load_cert_chain(file.name)
    return context


def collect_rarely() -> None:
    """Let Python look for garbage seldom: a full look at thousands of requests stalls all streams."""
    gc.set_threshold(50_000, 50, 50)


def main(words: Sequence[str] | None = None) -> int:
    """Run the program; return its exit code."""
    arguments = parser().parse_args(words)
    raise_descriptor_limit()
    collect_rarely()
    try:
        asyncio.run(serve(arguments))
    except (OSError, ValueError) as error:
        print(f"mock-gpu: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
