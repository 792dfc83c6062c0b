"""Routers from PyPI as rows of a bench: each in an environment of its own, as a process of this machine."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from integration.bench_loads import Running, Subject
from integration.environments import environment
from lbgen.lab.boxes import fetch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lbgen.lab.boxes import MockBox

PATIENCE_S = 60.0


class Policy(NamedTuple):
    """How a router chooses, in its own words."""

    name: str
    header: str | None = None
    """A request header in which the row's clients name their session; None: they name none."""


class Router(NamedTuple):
    """A router from PyPI."""

    name: str
    package: str
    version: str
    command: tuple[str, ...]
    """How it is started, in an environment of its own: both gateways have a program `smg`."""
    policies: tuple[Policy, ...]


ROUTERS = (
    Router(
        "smg", "smg", "1.13.0", ("smg", "launch"),
        (
            Policy("cache_aware"),
            Policy("consistent_hashing", "X-SMG-Routing-Key"),
            Policy("least_load"),
            Policy("power_of_two"),
        ),
    ),
    Router(
        "SGLang gateway", "sglang-router", "0.3.2", ("python", "-m", "sglang_router.launch_router"),
        (Policy("cache_aware"),),
    ),
    Router(
        "vLLM router", "vllm-router", "0.1.17", ("python", "-m", "vllm_router.launch_router"),
        (Policy("cache_aware"), Policy("power_of_two")),
    ),
)  # fmt: skip


def routed(router: Router, policy: Policy) -> Subject:
    """Return a row for a router, which logs as little as it can and is else as it comes."""

    @contextmanager
    def start(mocks: Sequence[MockBox]) -> Iterator[Running]:
        port, metrics = free_ports(2)
        program, *words = router.command
        words += ["--host", "127.0.0.1", "--port", str(port), "--policy", policy.name, "--log-level", "error"]
        words += ["--prometheus-port", str(metrics), "--worker-urls", *(mock.url for mock in mocks)]
        command: list[str | Path] = [environment(router.package, router.version) / program, *words]
        with process(command) as running:
            url = f"http://127.0.0.1:{port}"
            wait(running, url)
            yield Running(url, lambda: [running.pid])

    title = f"{policy.name} by a header" if policy.header else policy.name
    return Subject(title, router.name, start, policy.header)


@contextmanager
def process(
    command: Sequence[str | Path], environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program whose output nobody reads; it ends with the block."""
    with tempfile.TemporaryFile() as log:
        running = subprocess.Popen(command, stdout=log, stderr=log, env=environ)
        try:
            yield running
        finally:
            running.terminate()
            running.wait(timeout=PATIENCE_S)


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nobody uses now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in sockets]


def wait(running: subprocess.Popen[bytes], url: str, model: bytes = b"") -> None:
    """Return when a router tells its servers' models, this one among them; raises `RuntimeError`."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and running.poll() is None:
        try:
            found = fetch(f"{url}/v1/models", timeout_s=2)
        except OSError:
            found = None
        if found and found.status == 200 and model in found.body:
            return
        time.sleep(0.1)
    raise RuntimeError(f"{running.args!r} does not serve")
