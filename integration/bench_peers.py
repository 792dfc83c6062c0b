"""Other routers beside ours, with the same servers and the same load: ``python -m integration.bench_peers``.

SGLang's gateway and vLLM's router come from PyPI, in a virtual environment that this makes; files written by
hand are in `bench_peer_files`. The routers run on this machine, NGINX and HAProxy in containers on it.
Prints two tables in Markdown; each figure is the median over the seeds, with the least and the most.
"""

from __future__ import annotations

import argparse
import re
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from integration.bench_loads import Bench, Running, Subject, favoured, options, tables
from integration.bench_peer_files import SOURCES, file
from integration.bench_strategies import SHORTEST, ours, programs, servers
from integration.environments import environment
from integration.fleets import THREE, Proxy
from lbgen.lab.boxes import fetch
from lbgen.lab.rig import Rig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lbgen.lab.boxes import MockBox

PATIENCE_S = 60.0


class Router(NamedTuple):
    """A router from PyPI."""

    name: str
    package: str
    version: str
    command: tuple[str, ...]
    """How it is started, in an environment of its own: both gateways have a program `smg`."""
    policies: tuple[str, ...]


ROUTERS = (
    Router("smg", "smg", "1.13.0", ("smg", "launch"), ("cache_aware", "power_of_two", "least_load")),
    Router(
        "SGLang gateway", "sglang-router", "0.3.2", ("python", "-m", "sglang_router.launch_router"),
        ("cache_aware",),
    ),
    Router(
        "vLLM router", "vllm-router", "0.1.17", ("python", "-m", "vllm_router.launch_router"),
        ("cache_aware", "power_of_two"),
    ),
)  # fmt: skip


def routed(router: Router, policy: str) -> Subject:
    """Return a row for a router, which logs as little as it can and is else as it comes."""

    @contextmanager
    def start(mocks: Sequence[MockBox]) -> Iterator[Running]:
        port, metrics = free_ports(2)
        program, *words = router.command
        words += ["--host", "127.0.0.1", "--port", str(port), "--policy", policy, "--log-level", "error"]
        words += ["--prometheus-port", str(metrics)]
        urls = ["--worker-urls", *(mock.url for mock in mocks)]
        with tempfile.TemporaryFile() as log:
            command = [str(environment(router.package, router.version) / program), *words, *urls]
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                _wait(process, f"http://127.0.0.1:{port}")
                yield Running(f"http://127.0.0.1:{port}", lambda: [process.pid])
            finally:
                process.terminate()
                process.wait(timeout=PATIENCE_S)

    return Subject(policy, router.name, start)


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nobody uses now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in sockets]


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


def by_hand(rig: Rig, generation: str, kind: str) -> Subject:
    """Return a row for a file written by hand."""
    target = "nginx" if kind == "nginx" else "haproxy"
    proxy = Proxy(generation, target)

    @contextmanager
    def start(mocks: Sequence[MockBox]) -> Iterator[Running]:
        text = file(kind, [f"gpu-{number}" for number in range(len(mocks))])
        balancer = rig.balancer(target, proxy.image, text, probe=None)
        favoured(balancer)
        try:
            yield Running(balancer.url, balancer.processes)
        finally:
            balancer.remove()

    return Subject("stick by hand" if kind == "stick" else "file written by hand", target, start)


def subjects(rig: Rig, generation: str) -> Mapping[str, Sequence[Subject]]:
    """Return the rows of each workload's table."""

    def on(target: str, title: str, **pool: Any) -> Subject:
        return ours(rig, generation, title, target, **pool)

    routers = tuple(routed(router, policy) for router in ROUTERS for policy in router.policies)
    others = (*routers, *(by_hand(rig, generation, kind) for kind in ("nginx", "haproxy")))
    least_conn = tuple(on(target, "least_conn", strategy="least_conn") for target in THREE)
    answers = (
        *others,
        *least_conn,
        on("haproxy", "least_conn, max_in_flight 32", max_in_flight=32),
        on("haproxy", "the same, shortest_first", **SHORTEST),
    )
    shared = (
        on("haproxy", "prefix", strategy="prefix"),
        by_hand(rig, generation, "stick"),
        *routers,
        *least_conn,
        on("haproxy", "round_robin", strategy="round_robin"),
        on("nginx", "prefix", strategy="prefix"),
        on("envoy", "prefix by conversation", strategy={"name": "prefix", "key": "conversation"}),
        ours(rig, generation, "prefix, njs", "nginx", modules=["njs"], strategy="prefix"),
    )
    return {"answers": answers} | dict.fromkeys(
        ("agents", "tenants", "hot", "unshared", "kinds", "compacted", "prefixes"), shared
    )


def main() -> None:
    """Run the command line."""
    line = argparse.ArgumentParser(prog="integration.bench_peers", description=__doc__)
    chosen = options(line).parse_args()
    names = ", ".join(f"{router.package} {router.version}" for router in ROUTERS)
    print(
        f"{names}, {programs(chosen.generation)}; seeds 0 to {chosen.seeds - 1}.\n\n"
        f"Written by hand: {'; '.join(f'{kind}: {source}' for kind, source in SOURCES.items())}.\n"
    )
    with Rig() as rig:
        bench = Bench(servers(rig), chosen.requests, chosen.keep)
        rows = {
            name: [one for one in those if re.search(chosen.rows, f"{one.title} | {one.on}")]
            for name, those in subjects(rig, chosen.generation).items()
        }
        for text in tables(bench, rows, chosen.seeds, chosen.only):
            print(text, flush=True)


if __name__ == "__main__":
    main()
