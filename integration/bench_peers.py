"""Other routers beside ours, with the same servers and the same load: ``python -m integration.bench_peers``.

SGLang's gateways, vLLM's router and NVIDIA's Dynamo come from PyPI (`bench_routers`, `bench_dynamo`); files
written by hand are in `bench_peer_files`. The routers run on this machine, the rest in containers. Prints a
table in Markdown for each workload; each figure is the median over the seeds, with the least and the most.
"""

from __future__ import annotations

import argparse
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from integration import bench_dynamo
from integration.bench_loads import Bench, Running, Subject, favoured, options, tables
from integration.bench_peer_files import SOURCES, file
from integration.bench_routers import ROUTERS, routed
from integration.bench_strategies import SHORTEST, ours, programs, servers
from integration.fleets import THREE, Proxy
from lbgen.lab.rig import Rig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lbgen.lab.boxes import MockBox


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
        bench_dynamo.subject(),
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
    names += f", {bench_dynamo.PACKAGE} {bench_dynamo.VERSION}"
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
