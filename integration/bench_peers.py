"""Other routers beside ours, with the same servers and the same load: ``python -m integration.bench_peers``.

SGLang's gateway and vLLM's router come from PyPI, in a virtual environment that this makes; files written by
hand are in `bench_peer_files`. The routers run on this machine, NGINX and HAProxy in containers on it.
Prints two tables in Markdown; each figure is the median over the seeds, with the least and the most.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
import venv
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from integration.bench_loads import Bench, Running, Subject, favoured, options, tables
from integration.bench_peer_files import FILES, SOURCES
from integration.bench_strategies import LOOSE, SHORTEST, ours, programs, servers
from integration.fleets import TARGETS, Proxy
from lbgen.lab.boxes import fetch
from lbgen.lab.rig import Rig

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.lab.boxes import MockBox

PORT = 30_100
PATIENCE_S = 60.0


class Router(NamedTuple):
    """A router from PyPI."""

    name: str
    package: str
    version: str
    module: str
    policies: tuple[str, ...]


ROUTERS = (
    Router(
        "SGLang gateway", "sglang-router", "0.3.2", "sglang_router.launch_router",
        ("round_robin", "power_of_two", "cache_aware"),
    ),
    Router(
        "vLLM router", "vllm-router", "0.1.17", "vllm_router.launch_router",
        ("power_of_two", "consistent_hash", "cache_aware"),
    ),
)  # fmt: skip


def environment() -> Path:
    """Return the Python of a virtual environment with the routers, made when it is not there yet."""
    wanted = [f"{router.package}=={router.version}" for router in ROUTERS]
    folder = Path(tempfile.gettempdir()) / f"lbgen-peers-{'-'.join(router.version for router in ROUTERS)}"
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        ready.touch()
    return python


def routed(python: Path, router: Router, policy: str) -> Subject:
    """Return a row for a router, which logs as little as it can and is else as it comes."""

    @contextmanager
    def start(mocks: Sequence[MockBox]) -> Iterator[Running]:
        words = ["--host", "127.0.0.1", "--port", str(PORT), "--policy", policy, "--log-level", "error"]
        urls = ["--worker-urls", *(mock.url for mock in mocks)]
        with tempfile.TemporaryFile() as log:
            command = [str(python), "-m", router.module, *urls, *words]
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                _wait(process, f"http://127.0.0.1:{PORT}")
                yield Running(f"http://127.0.0.1:{PORT}", lambda: [process.pid])
            finally:
                process.terminate()
                process.wait(timeout=PATIENCE_S)

    return Subject(policy, router.name, start)


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    """Return when the router passes requests on; raises `RuntimeError`."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        try:
            if fetch(f"{url}/v1/models", timeout_s=2).status == 200:
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"{process.args!r} does not serve")


def by_hand(rig: Rig, generation: str, target: str) -> Subject:
    """Return a row for a file written by hand."""
    proxy = Proxy(generation, target)

    @contextmanager
    def start(mocks: Sequence[MockBox]) -> Iterator[Running]:
        del mocks  # the file names them
        balancer = rig.balancer(target, proxy.image, FILES[target], probe=None)
        favoured(balancer)
        try:
            yield Running(balancer.url, balancer.processes)
        finally:
            balancer.remove()

    return Subject("file written by hand", target, start)


def subjects(rig: Rig, generation: str, python: Path) -> dict[str, Sequence[Subject]]:
    """Return the rows of each workload's table."""

    def on(target: str, title: str, **pool: Any) -> Subject:
        return ours(rig, generation, title, target, **pool)

    others = (
        *(routed(python, router, policy) for router in ROUTERS for policy in router.policies),
        *(by_hand(rig, generation, target) for target in TARGETS),
    )
    least_conn = tuple(on(target, "least_conn", strategy="least_conn") for target in TARGETS)
    return {
        "answers": (
            *others,
            *least_conn,
            on("haproxy", "least_conn, max_in_flight 32", max_in_flight=32),
            on("haproxy", "the same, shortest_first", **SHORTEST),
        ),
        "prefixes": (
            *others,
            *least_conn,
            on("nginx", "prefix", strategy="prefix"),
            on("haproxy", "prefix", strategy="prefix"),
            on("haproxy", "prefix, load_factor 2", strategy=LOOSE),
            on("haproxy", "prefix, max_in_flight 48", strategy="prefix", max_in_flight=48),
        ),
    }


def main() -> None:
    """Run the command line."""
    line = argparse.ArgumentParser(prog="integration.bench_peers", description=__doc__)
    chosen = options(line).parse_args()
    python = environment()
    names = ", ".join(f"{router.package} {router.version}" for router in ROUTERS)
    print(
        f"{names}, {programs(chosen.generation)}; "
        f"seeds 0 to {chosen.seeds - 1}, {chosen.requests} requests each.\n\n"
        f"Written by hand: {'; '.join(f'{target}: {source}' for target, source in SOURCES.items())}.\n"
    )
    with Rig() as rig:
        bench = Bench(servers(rig), chosen.requests, chosen.keep)
        rows = subjects(rig, chosen.generation, python)
        for text in tables(bench, rows, chosen.seeds, chosen.only):
            print(text, flush=True)


if __name__ == "__main__":
    main()
